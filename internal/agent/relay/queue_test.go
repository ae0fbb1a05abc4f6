package relay

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestBothEndsBlock tests that there is no deadlock, and that the queue stays small, if both ends
// write fast and read slowly through small windows.
func TestBothEndsBlock(t *testing.T) {
	eachForm(t, func(t *testing.T, f protocol) {
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
				m, err := encodeFrame(ask(f, []string{api.ClusterType, api.EndpointType}[i%2], fmt.Sprint(i), names...))
				if err != nil {
					t.Error(err)
					return
				}
				if e.stream.SendMsg(&m) != nil {
					return
				}
				wrote[0].Add(1)
			}
		}()
		go func() {
			for i := range messages { // nor does the control plane
				m, err := encodeFrame(say(f, api.ClusterType, fmt.Sprint(i), payload))
				if err != nil {
					t.Error(err)
					return
				}
				if u.stream.SendMsg(&m) != nil {
					return
				}
				wrote[1].Add(1)
			}
		}()
		serving.Eventually(t, patience, "envoy to have written everything", func() error {
			if n := wrote[0].Load(); n < messages {
				return fmt.Errorf("wrote %d", n)
			}
			return nil
		})
		q := w.sessions[0].queue
		q.mu.Lock()
		if n := len(q.list); n > 3*maxQueued {
			t.Errorf("%d requests wait", n)
		}
		q.mu.Unlock()
		for range messages {
			if _, err := e.recv(t); err != nil {
				t.Fatal(err)
			}
		}
		// When the control plane reads at last, the newest request arrives complete.
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

// TestJoin tests that a merged request subscribes to everything that both requests subscribe to.
func TestJoin(t *testing.T) {
	node := &corev3.Node{Id: "n"}
	tests := []struct {
		name       string
		form       protocol
		a, b, want proto.Message
		into       proto.Message
	}{
		{"SotW: the newer request with the node of the older", sotw{},
			&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: "t", ResourceNames: []string{"a"}, ResponseNonce: "1"},
			&discoveryv3.DiscoveryRequest{TypeUrl: "t", ResourceNames: []string{"b"}, ResponseNonce: "2"},
			&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: "t", ResourceNames: []string{"b"}, ResponseNonce: "2"}, &discoveryv3.DiscoveryRequest{}},
		{"delta: subscriptions add up", delta{},
			&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: "t", ResourceNamesSubscribe: []string{"a", "b"}, ResourceNamesUnsubscribe: []string{"c", "d"}, ResponseNonce: "1"},
			&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", ResourceNamesSubscribe: []string{"c", "e"}, ResourceNamesUnsubscribe: []string{"a"}},
			&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: "t", ResourceNamesSubscribe: []string{"b", "c", "e"}, ResourceNamesUnsubscribe: []string{"d", "a"}, ResponseNonce: "1"},
			&discoveryv3.DeltaDiscoveryRequest{}},
		{"delta: the later nonce and the first versions are used", delta{},
			&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: "1", InitialResourceVersions: map[string]string{"a": "1"}},
			&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: "2", ErrorDetail: internalStatus(io.EOF)},
			&discoveryv3.DeltaDiscoveryRequest{ResponseNonce: "2", ErrorDetail: internalStatus(io.EOF), InitialResourceVersions: map[string]string{"a": "1"}},
			&discoveryv3.DeltaDiscoveryRequest{}},
	}
	for _, test := range tests {
		got, err := test.form.mergeRequests(wire(t, test.a), wire(t, test.b))
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

// TestTooManyTypes tests that the number of types in the queue is bounded.
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
