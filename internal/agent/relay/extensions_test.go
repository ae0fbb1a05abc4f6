package relay

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// extension returns an extension with a text as its configuration.
func extension(t *testing.T, name, text string) *discoveryv3.Resource {
	t.Helper()
	config, err := anypb.New(wrapperspb.String(text))
	if err != nil {
		t.Fatal(err)
	}
	body, err := anypb.New(&corev3.TypedExtensionConfig{Name: name, TypedConfig: config})
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv3.Resource{Name: name, Version: text, Resource: body}
}

// modules converts extensions whose text begins with "module": their fetch lasts until the test
// releases it, and adds " here". The text "broken" is rejected.
type modules struct {
	t  *testing.T
	mu sync.Mutex
	// released has a channel by text, which is closed to end the fetches.
	released map[string]chan struct{}
	canceled chan string
}

func newModules(t *testing.T) *modules {
	t.Helper()
	return &modules{t: t, released: map[string]chan struct{}{}, canceled: make(chan string, 16)}
}

// gate returns the channel that ends the fetch of a text.
func (m *modules) gate(text string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.released[text] == nil {
		m.released[text] = make(chan struct{})
	}
	return m.released[text]
}

func (m *modules) release(text string) { close(m.gate(text)) }

func (m *modules) convert(r *discoveryv3.Resource) (func(context.Context) error, error) {
	var e corev3.TypedExtensionConfig
	var text wrapperspb.StringValue
	if err := errors.Join(r.GetResource().UnmarshalTo(&e), e.GetTypedConfig().UnmarshalTo(&text)); err != nil {
		return nil, err
	}
	switch {
	case text.GetValue() == "broken":
		return nil, errors.New("cannot decode")
	case !strings.HasPrefix(text.GetValue(), "module"):
		return nil, nil
	}
	return func(ctx context.Context) error {
		select {
		case <-m.gate(text.GetValue()):
		case <-ctx.Done():
			m.canceled <- text.GetValue()
			return ctx.Err()
		}
		if strings.HasSuffix(text.GetValue(), "unusable") {
			return errors.New("cannot encode")
		}
		r.Resource = extension(m.t, e.GetName(), text.GetValue()+" here").GetResource()
		return nil
	}, nil
}

// extensionWorld is a relay between a control plane and an Envoy that has requested extensions.
type extensionWorld struct {
	*testing.T
	form    protocol
	plane   *upstream
	envoy   *envoy
	modules *modules
}

func startExtensions(t *testing.T, f protocol) *extensionWorld {
	t.Helper()
	p, m := startPlane(t), newModules(t)
	w := startRelay(t, Options{Convert: m.convert}, p.address)
	e := w.dial(t, f)
	e.send(t, ask(f, api.ExtensionType, ""))
	u := p.accept(t)
	u.recv(t)
	return &extensionWorld{t, f, u, e, m}
}

// send sends a response of the control plane with extensions.
func (w *extensionWorld) send(nonce string, resources ...*discoveryv3.Resource) {
	w.Helper()
	w.plane.send(w.T, say(w.form, api.ExtensionType, nonce, resources...))
}

// want tests that Envoy's next response is this one.
func (w *extensionWorld) want(nonce string, resources ...*discoveryv3.Resource) {
	w.Helper()
	want := wire(w.T, say(w.form, api.ExtensionType, nonce, resources...))
	if got, err := w.envoy.recv(w.T); err != nil || !bytes.Equal(got, want) {
		w.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// here returns an extension whose fetch has ended.
func (w *extensionWorld) here(name, text string) *discoveryv3.Resource {
	r := extension(w.T, name, text+" here")
	r.Version = text
	return r
}

// TestModulesDoNotHoldBackOthers tests that extensions without a module are forwarded while modules
// are fetched, which happens at the same time, and that each module follows when it is there.
func TestModulesDoNotHoldBackOthers(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
		w := startExtensions(t, f)
		w.send("1", extension(t, "a", "module a"), extension(t, "policy", "1"), extension(t, "b", "module b"))
		w.want("1", extension(t, "policy", "1"))
		w.send("2", extension(t, "c", "module c"))
		w.want("2") // Envoy acknowledges it, so that the control plane sends further ones
		w.send("3", extension(t, "policy", "2"))
		w.want("3", extension(t, "policy", "2"))
		late := "1"
		if _, ok := f.(sotw); ok {
			late = "3" // Envoy repeats its subscription with it
		}
		w.modules.release("module b")
		w.want(late, w.here("b", "module b"))
		w.modules.release("module a")
		w.want(late, w.here("a", "module a"))
		w.plane.send(t, say(f, api.ClusterType, "4"))
		if got, err := w.envoy.recv(t); err != nil || !bytes.Equal(got, wire(t, say(f, api.ClusterType, "4"))) {
			t.Fatalf("got %q, %v", got, err)
		}
	})
}

// TestNewestModuleWins tests that a newer version of an extension cancels the fetch of an older
// one, also if it needs no fetch or removes the extension.
func TestNewestModuleWins(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
		w := startExtensions(t, f)
		w.send("1", extension(t, "a", "module 1"), extension(t, "b", "module b"))
		w.want("1")
		w.send("2", extension(t, "a", "module 2"))
		w.want("2")
		if got := take(t, w.modules.canceled, "canceled fetch"); got != "module 1" {
			t.Errorf("%s was canceled", got)
		}
		w.modules.release("module 1")
		w.modules.release("module 2")
		w.want("2", w.here("a", "module 2"))
		w.send("3", extension(t, "b", "file"))
		w.want("3", extension(t, "b", "file"))
		if got := take(t, w.modules.canceled, "canceled fetch"); got != "module b" {
			t.Errorf("%s was canceled", got)
		}
		if _, ok := f.(delta); !ok {
			return
		}
		w.send("4", extension(t, "c", "module c"))
		w.want("4")
		removal := &discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: api.ExtensionType, Nonce: "5", RemovedResources: []string{"c"},
		}
		w.plane.send(t, removal)
		if got, err := w.envoy.recv(t); err != nil || !bytes.Equal(got, wire(t, removal)) {
			t.Fatalf("got %q, %v", got, err)
		}
		if got := take(t, w.modules.canceled, "canceled fetch"); got != "module c" {
			t.Errorf("%s was canceled", got)
		}
	})
}

// TestInvalidExtensions tests that a response with an extension that cannot be converted is
// rejected as a whole, without effect on Envoy and on running fetches.
func TestInvalidExtensions(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
		w := startExtensions(t, f)
		w.send("1", extension(t, "a", "module 1"), extension(t, "b", "module unusable"))
		w.want("1")
		w.send("2", extension(t, "policy", "1"), extension(t, "a", "broken"))
		wantAnswer(t, f, w.plane.recv(t), "2", "cannot decode")
		malformed := proto.CloneOf(extension(t, "a", ""))
		malformed.Resource.Value = []byte{0xff}
		w.send("3", malformed)
		wantAnswer(t, f, w.plane.recv(t), "3", "unexpected EOF")
		w.modules.release("module 1")
		w.want("1", w.here("a", "module 1"))
		w.modules.release("module unusable")
		wantAnswer(t, f, w.plane.recv(t), "1", "cannot encode")
	})
}

// TestStreamEndsDuringFetch tests that the fetches of a stream end with it.
func TestStreamEndsDuringFetch(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
		w := startExtensions(t, f)
		w.send("1", extension(t, "a", "module"))
		w.want("1")
		w.envoy.cancel()
		take(t, w.modules.canceled, "canceled fetch")
	})
}
