package relay

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestPassesThrough tests that messages pass in both directions in order and byte for byte,
// including large ones and unknown fields.
func TestPassesThrough(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
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

// TestPartsEndTogether tests that the end of either stream ends the other one with its status.
func TestPartsEndTogether(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
		p := startPlane(t)
		w := startRelay(t, Options{}, p.address)
		e := w.dial(t, f)
		e.send(t, ask(f, api.ClusterType, ""))
		u := p.accept(t)
		u.recv(t)
		u.done <- status.Error(codes.PermissionDenied, "not you")
		if _, err := e.recv(t); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "not you") {
			t.Errorf("Envoy receives %v", err)
		}
		e = w.dial(t, f)
		e.send(t, ask(f, api.ClusterType, ""))
		u = p.accept(t)
		e.cancel()
		take(t, u.stream.Context().Done(), "end at the control plane")
	})
}

// TestNewestStreamCounts tests that a new stream of Envoy replaces the previous one, even if the
// relay has not noticed its end.
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

// TestOtherAddress tests that the next address is used if one is unreachable, and that it stays in
// use.
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
	_ = w.addresses.Try(t.Context(), func(address string) (done bool, err error) {
		if address != p.address {
			t.Errorf("address %s is used next", address)
		}
		return true, nil
	})
	// If none is reachable, Envoy gets the error.
	w = startRelay(t, Options{}, silent)
	if _, err := w.dial(t, delta{}).recv(t); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), silent) {
		t.Errorf("Envoy receives %v", err)
	}
}

// TestBlackHole tests that an address that accepts connections but never responds costs five
// seconds, and that an open stream has no such timeout.
func TestBlackHole(t *testing.T) {
	longtest.Test(t)
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

// TestOwnTypes tests that the agent's requests follow Envoy's first request for listeners, and that
// Envoy does not see their responses. Invalid ones are rejected, empty ones ignored, and the
// applied versions are sent after a reconnect.
func TestOwnTypes(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
		p := startPlane(t)
		used := make(chan string, 16)
		own := &Subscription{TypeURL: api.NameTableType, Apply: func(body []byte) error {
			if string(body) == "bad" {
				return errors.New("is bad")
			}
			used <- string(body)
			return nil
		}}
		w := startRelay(t, Options{Subscriptions: []*Subscription{own}}, p.address)
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

// wantAnswer checks the nonce and error of an ACK or NACK.
func wantAnswer(t *testing.T, f protocol, got frame, nonce, problem string) {
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
