package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/api"
)

// TestPassesThrough: messages go both ways byte for byte and in order, big ones and such with fields that nobody knows too.
func TestPassesThrough(t *testing.T) {
	eachForm(t, func(t *testing.T, f form) {
		p := startPlane(t)
		o := Options{}
		o.Target.Metadata = map[string]string{"clusterid": "c1"}
		w := startRelay(t, o, p.address)
		e := w.dial(t, f)
		var sent []frame
		for i, typeURL := range []string{api.ClusterType, api.EndpointType, api.ClusterType, api.ListenerType, "type.googleapis.com/of.tomorrow"} {
			first := ask(f, typeURL, fmt.Sprint(i), "a", "b")
			first.ProtoReflect().SetUnknown([]byte{0xf8, 0x07, 0x01}) // field 127
			sent = append(sent, e.send(t, first))
		}
		u := p.accept(t)
		if got := u.header.Get("clusterid"); len(got) != 1 || got[0] != "c1" {
			t.Errorf("cluster %q", got)
		}
		for i, want := range sent {
			if got := u.recv(t); !bytes.Equal(got, want) {
				t.Errorf("request %d is\n%q, want\n%q", i, got, want)
			}
		}
		big := &anypb.Any{TypeUrl: api.ClusterType, Value: bytes.Repeat([]byte("x"), 20<<20)}
		for i, typeURL := range []string{api.ClusterType, api.EndpointType, api.ListenerType, api.RouteType} {
			m := say(f, typeURL, fmt.Sprint(i), &discoveryv3.Resource{Name: "r", Resource: big})
			u.send(t, m)
			got, err := e.recv(t)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, wire(t, m)) {
				t.Errorf("response %d is another", i)
			}
		}
	})
}

// TestEndsTogether: either side's end is the other's, with what it was.
func TestEndsTogether(t *testing.T) {
	eachForm(t, func(t *testing.T, f form) {
		p := startPlane(t)
		w := startRelay(t, Options{}, p.address)
		e := w.dial(t, f)
		e.send(t, ask(f, api.ClusterType, ""))
		u := p.accept(t)
		u.recv(t)
		u.done <- status.Error(codes.PermissionDenied, "not you")
		if _, err := e.recv(t); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "not you") {
			t.Errorf("envoy is told %v", err)
		}
		e = w.dial(t, f)
		e.send(t, ask(f, api.ClusterType, ""))
		u = p.accept(t)
		e.cancel()
		take(t, u.stream.Context().Done(), "end at the control plane")
	})
}

// TestNewestStreamCounts: Envoy opens a stream when it has given up the last, also if that is not known here yet.
func TestNewestStreamCounts(t *testing.T) {
	p := startPlane(t)
	for streams, survives := range map[int]bool{1: false, 2: true} {
		w := startRelay(t, Options{Streams: streams}, p.address)
		first := w.dial(t, delta{})
		first.send(t, ask(delta{}, api.ClusterType, ""))
		a := p.accept(t)
		second := w.dial(t, delta{})
		second.send(t, ask(delta{}, api.ClusterType, ""))
		b := p.accept(t)
		b.recv(t)
		if survives {
			a.send(t, say(delta{}, api.ClusterType, "1"))
		} else {
			take(t, a.stream.Context().Done(), "end of the first stream")
		}
		if _, err := first.recv(t); (err == nil) != survives {
			t.Errorf("with %d streams the first one has %v", streams, err)
		}
		b.send(t, say(delta{}, api.ClusterType, "1"))
		if _, err := second.recv(t); err != nil {
			t.Errorf("with %d streams the second one has %v", streams, err)
		}
	}
}

// TestOtherAddress: where one address does not answer another is taken, and stays the one.
func TestOtherAddress(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := dead.Addr().String()
	dead.Close()
	p := startPlane(t)
	w := startRelay(t, Options{}, silent, p.address)
	for range 2 {
		e := w.dial(t, delta{})
		e.send(t, ask(delta{}, api.ClusterType, ""))
		u := p.accept(t)
		u.recv(t)
		u.done <- nil
		if _, err := e.recv(t); err == nil {
			t.Error("the stream does not end")
		}
	}
	if w.good != 1 {
		t.Errorf("the address is number %d", w.good)
	}
	// With nobody at all, Envoy learns why.
	w = startRelay(t, Options{}, silent)
	if _, err := w.dial(t, delta{}).recv(t); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), silent) {
		t.Errorf("envoy is told %v", err)
	}
}

// TestBlackHole: an address that takes connections and says nothing costs five seconds, no more, and a stream that is open
// has no such limit.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := startRelay(t, Options{}, l.Addr().String())
	begin := time.Now()
	_, err = w.dial(t, delta{}).recv(t)
	if took := time.Since(begin); status.Code(err) != codes.Unavailable || took > openTimeout+2*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}

// TestOwnTypes: what the agent asks for itself goes out after Envoy's first request for listeners, and stays here. Bad ones
// are refused, empty ones say nothing, and the control plane is told what the agent has when it comes back.
func TestOwnTypes(t *testing.T) {
	eachForm(t, func(t *testing.T, f form) {
		p := startPlane(t)
		used := make(chan string, 16)
		own := &Own{TypeURL: api.NameTableType, Use: func(body []byte) error {
			if string(body) == "bad" {
				return errors.New("is bad")
			}
			used <- string(body)
			return nil
		}}
		w := startRelay(t, Options{Own: []*Own{own}}, p.address)
		w.SetHealth("it is ill")
		e := w.dial(t, f)
		e.send(t, ask(f, api.ClusterType, ""))
		e.send(t, ask(f, api.ListenerType, ""))
		e.send(t, ask(f, api.ListenerType, "1"))
		u := p.accept(t)
		var types []string
		for range 5 {
			types = append(types, api.ShortType(typeOf(t, f, u.recv(t))))
		}
		if !cmp.Equal(types, []string{"CDS", "LDS", "NDS", healthType, "LDS"}) && !cmp.Equal(types, []string{"CDS", "LDS", "LDS", "NDS", healthType}) {
			t.Errorf("requests %v", types)
		}
		resource := func(body string) *discoveryv3.Resource {
			return &discoveryv3.Resource{Name: "n", Version: "v", Resource: &anypb.Any{TypeUrl: api.NameTableType, Value: []byte(body)}}
		}
		u.send(t, say(f, api.NameTableType, "0"))
		u.send(t, say(f, api.NameTableType, "1", resource("good"), resource("second")))
		if got := take(t, used, "use"); got != "good" {
			t.Errorf("used %q", got)
		}
		wantAnswer(t, f, u.recv(t), "1", "")
		u.send(t, say(f, api.NameTableType, "2", resource("bad")))
		wantAnswer(t, f, u.recv(t), "2", "is bad")
		w.SetHealth("")
		if got := typeOf(t, f, u.recv(t)); got != healthType {
			t.Errorf("a change of health sends %s", got)
		}
		u.send(t, say(f, api.ClusterType, "3"))
		if got, err := e.recv(t); err != nil || !bytes.Equal(got, wire(t, say(f, api.ClusterType, "3"))) {
			t.Errorf("envoy has %q, %v", got, err) // and none of the others
		}
		u.done <- nil
		e = w.dial(t, f)
		e.send(t, ask(f, api.ListenerType, ""))
		u = p.accept(t)
		u.recv(t)
		var again discoveryv3.DeltaDiscoveryRequest
		if err := proto.Unmarshal(u.recv(t), &again); f == (delta{}) && (err != nil || again.GetInitialResourceVersions()["n"] != "v") {
			t.Errorf("asked again as %v, %v", &again, err)
		}
	})
}

// wantAnswer holds an acknowledgement against its nonce and what it refuses.
func wantAnswer(t *testing.T, f form, got frame, nonce, problem string) {
	t.Helper()
	var gotNonce, gotProblem string
	if f == (delta{}) {
		var m discoveryv3.DeltaDiscoveryRequest
		if err := proto.Unmarshal(got, &m); err != nil {
			t.Fatal(err)
		}
		gotNonce, gotProblem = m.GetResponseNonce(), m.GetErrorDetail().GetMessage()
	} else {
		var m discoveryv3.DiscoveryRequest
		if err := proto.Unmarshal(got, &m); err != nil {
			t.Fatal(err)
		}
		gotNonce, gotProblem = m.GetResponseNonce(), m.GetErrorDetail().GetMessage()
		if want := map[bool]string{true: "v" + nonce}[problem == ""]; m.GetVersionInfo() != want {
			t.Errorf("version %q", m.GetVersionInfo())
		}
	}
	if gotNonce != nonce || gotProblem != problem {
		t.Errorf("answer to %q: %q, want to %q: %q", gotNonce, gotProblem, nonce, problem)
	}
}

// TestConvert: extensions wait for their code while other types go on; what cannot be had is refused, and Envoy keeps what it
// has.
func TestConvert(t *testing.T) {
	eachForm(t, func(t *testing.T, f form) {
		p := startPlane(t)
		release := make(chan struct{})
		w := startRelay(t, Options{Convert: func(ctx context.Context, r *discoveryv3.Resource) error {
			if string(r.GetResource().GetValue()) == "gone" {
				return errors.New("404")
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
			r.Resource.Value = append(r.GetResource().GetValue(), " is here"...)
			return nil
		}}, p.address)
		e := w.dial(t, f)
		e.send(t, ask(f, api.ExtensionType, ""))
		u := p.accept(t)
		u.recv(t)
		extension := func(body string) *discoveryv3.Resource {
			return &discoveryv3.Resource{Resource: &anypb.Any{TypeUrl: api.ExtensionType, Value: []byte(body)}}
		}
		u.send(t, say(f, api.ExtensionType, "1", extension("module")))
		u.send(t, say(f, api.ExtensionType, "2", extension("gone")))
		u.send(t, say(f, api.ClusterType, "3"))
		if got, err := e.recv(t); err != nil || !bytes.Equal(got, wire(t, say(f, api.ClusterType, "3"))) {
			t.Fatalf("first %q, %v", got, err)
		}
		close(release)
		if got, err := e.recv(t); err != nil || !bytes.Equal(got, wire(t, say(f, api.ExtensionType, "1", extension("module is here")))) {
			t.Errorf("then %q, %v", got, err)
		}
		wantAnswer(t, f, u.recv(t), "2", "404")
	})
}

// TestAsk: questions go out on Envoy's stream, and the answers come back to whoever asked, in turn.
func TestAsk(t *testing.T) {
	eachForm(t, func(t *testing.T, f form) {
		p := startPlane(t)
		w := startRelay(t, Options{}, p.address)
		if _, err := w.Ask(t.Context(), debugType, "syncz"); !errors.Is(err, errNotConnected) {
			t.Errorf("without a stream: %v", err)
		}
		e := w.dial(t, f)
		e.send(t, ask(f, api.ListenerType, ""))
		u := p.accept(t)
		u.recv(t)
		late, cancel := context.WithCancel(t.Context())
		cancel()
		eventually(t, "a question that is given up", func() error {
			if _, err := w.Ask(late, debugType, "never"); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
		got := make(chan string, 1)
		go func() {
			list, err := w.Ask(t.Context(), debugType, "syncz")
			text := ""
			for _, r := range list {
				text += string(r.GetResource().GetValue())
			}
			got <- fmt.Sprintf("%s %v", text, err)
		}()
		for _, name := range []string{"never", "syncz"} {
			if r := u.recv(t); !bytes.Contains(r, []byte(name)) {
				t.Errorf("question %q, want %s", r, name)
			}
		}
		for _, text := range []string{"an answer too late", "the answer"} {
			u.send(t, say(f, debugType, "1", &discoveryv3.Resource{Resource: &anypb.Any{Value: []byte(text)}}))
		}
		if text := take(t, got, "answer"); text != "the answer <nil>" {
			t.Errorf("answer %s", text)
		}
	})
}

// TestBothEndsBlock: both ends write as fast as they can and read slowly, through small windows. Neither waits for ever, and
// what waits stays small.
func TestBothEndsBlock(t *testing.T) {
	eachForm(t, func(t *testing.T, f form) {
		p := startPlane(t, grpc.InitialWindowSize(1<<16), grpc.InitialConnWindowSize(1<<16))
		w := startRelay(t, Options{}, p.address)
		e := w.dial(t, f)
		e.send(t, ask(f, api.ClusterType, ""))
		u := p.accept(t)
		u.recv(t)
		names := make([]string, 100)
		for i := range names {
			names[i] = fmt.Sprintf("outbound|80||service-%d.default.svc.cluster.local", i)
		}
		const messages = 3000
		payload := &discoveryv3.Resource{Name: "r", Resource: &anypb.Any{Value: bytes.Repeat([]byte("x"), 4000)}}
		var wrote [2]atomic.Int64
		go func() {
			for i := range messages { // Envoy writes and does not read
				m := wire(t, ask(f, []string{api.ClusterType, api.EndpointType}[i%2], fmt.Sprint(i), names...))
				if e.stream.SendMsg(&m) != nil {
					return
				}
				wrote[0].Add(1)
			}
		}()
		go func() {
			for i := range messages { // neither does the control plane
				m := wire(t, say(f, api.ClusterType, fmt.Sprint(i), payload))
				if u.stream.SendMsg(&m) != nil {
					return
				}
				wrote[1].Add(1)
			}
		}()
		eventually(t, "envoy to have written everything", func() error {
			if n := wrote[0].Load(); n < messages {
				return fmt.Errorf("wrote %d", n)
			}
			return nil
		})
		q := w.sessions[0].queue
		q.mu.Lock()
		if n := len(q.list); n > 3*maxWaiting {
			t.Errorf("%d requests wait", n)
		}
		q.mu.Unlock()
		for range messages {
			if _, err := e.recv(t); err != nil {
				t.Fatal(err)
			}
		}
		// The control plane reads at last: the newest request comes through whole.
		for {
			var m discoveryv3.DeltaDiscoveryRequest
			r := u.recv(t)
			if bytes.Contains(r, []byte(fmt.Sprint(messages-1))) {
				if f == (delta{}) && (proto.Unmarshal(r, &m) != nil || len(m.GetResourceNamesSubscribe()) != len(names)) {
					t.Errorf("the last request is %v", &m)
				}
				break
			}
		}
	})
}

// TestJoin: requests that are joined ask for what both ask for.
func TestJoin(t *testing.T) {
	node := &corev3.Node{Id: "n"}
	tests := []struct {
		name       string
		form       form
		a, b, want proto.Message
		into       proto.Message
	}{
		{"SotW: the newer says all, but for the node", sotw{},
			&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: "t", ResourceNames: []string{"a"}, ResponseNonce: "1"},
			&discoveryv3.DiscoveryRequest{TypeUrl: "t", ResourceNames: []string{"b"}, ResponseNonce: "2"},
			&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: "t", ResourceNames: []string{"b"}, ResponseNonce: "2"}, &discoveryv3.DiscoveryRequest{}},
		{"delta: subscriptions add up", delta{},
			&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: "t", ResourceNamesSubscribe: []string{"a", "b"}, ResourceNamesUnsubscribe: []string{"c", "d"}, ResponseNonce: "1"},
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", ResourceNamesSubscribe: []string{"c", "e"}, ResourceNamesUnsubscribe: []string{"a"}},
			&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: "t", ResourceNamesSubscribe: []string{"b", "c", "e"}, ResourceNamesUnsubscribe: []string{"d", "a"}, ResponseNonce: "1"},
			&discoveryv3.DeltaDiscoveryRequest{}},
		{"delta: the later nonce counts, the first versions stay", delta{},
			&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: "1", InitialResourceVersions: map[string]string{"a": "1"}},
			&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: "2", ErrorDetail: internal(io.EOF)},
			&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: "2", ErrorDetail: internal(io.EOF), InitialResourceVersions: map[string]string{"a": "1"}},
			&discoveryv3.DeltaDiscoveryRequest{}},
	}
	for _, test := range tests {
		got, err := test.form.join(wire(t, test.a), wire(t, test.b))
		if err != nil {
			t.Fatal(err)
		}
		if err := proto.Unmarshal(got, test.into); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(test.into, test.want) {
			t.Errorf("%s: got %v, want %v", test.name, test.into, test.want)
		}
	}
}

// TestTooManyTypes: nobody fills the queue with types that nobody knows.
func TestTooManyTypes(t *testing.T) {
	q := newQueue(delta{})
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		err = q.push(request{typeURL: fmt.Sprint(i)})
	}
	if err == nil || len(q.list) != maxTypes {
		t.Errorf("%d requests, %v", len(q.list), err)
	}
}

// TestQuestions: people ask over HTTP, and Istio's command line over ADS.
func TestQuestions(t *testing.T) {
	p := startPlane(t)
	w := startRelay(t, Options{}, p.address)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- w.ServeQuestions(ctx, l) }()
	page := func(path string) (int, string) {
		answer, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Error(err)
		}
		return answer.StatusCode, string(body)
	}
	if code, text := page("/debug/syncz"); code != http.StatusServiceUnavailable {
		t.Errorf("without a stream: %d %s", code, text)
	}
	e := w.dial(t, delta{})
	e.send(t, ask(delta{}, api.ListenerType, ""))
	u := p.accept(t)
	u.recv(t)
	go func() {
		for _, body := range []string{"{}", "", "{1}"} {
			var f frame
			if u.stream.RecvMsg(&f) != nil {
				return
			}
			m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: debugType}
			if body != "" {
				name := "edsz?proxyID=a.b"
				if !bytes.Contains(f, []byte(name)) {
					body = "asked " + string(f)
				}
				m.Resources = []*discoveryv3.Resource{{Resource: &anypb.Any{Value: []byte(body)}}}
			}
			if f, err := encoded(m); err != nil || u.stream.SendMsg(&f) != nil {
				return
			}
		}
	}()
	eventually(t, "a page", func() error {
		if code, text := page("/debug/edsz?proxyID=a.b"); code != http.StatusOK || text != "{}" {
			return fmt.Errorf("page: %d %s", code, text)
		}
		return nil
	})
	if code, text := page("/debug/nothing"); code != http.StatusNotFound {
		t.Errorf("no page: %d %s", code, text)
	}
	connection, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: debugType, ResourceNames: []string{"edsz?proxyID=a.b"}}); err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Recv(); err != nil || string(answer.GetResources()[0].GetValue()) != "{1}" {
		t.Errorf("over ADS: %v, %v", answer, err)
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: api.ClusterType}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("configuration over ADS: %v", err)
	}
	_ = connection.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
