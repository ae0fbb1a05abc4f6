package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/xds/push"
	"github.com/meshpilot/meshpilot/internal/xds/push/pushtest"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// servedEndpoints runs a Pusher with a client that subscribes to the endpoints of all services until
// the test ends. It returns their versions.
func servedEndpoints(t testing.TB, services int) (p *push.Pusher, versions map[string]string) {
	t.Helper()
	mesh := pushtest.New(t, services)
	p = push.New(push.Options{Generators: new(pushtest.Generators).Table()})
	p.Publish(mesh.Current(), snapshot.Delta{All: true})
	ctx, cancel := context.WithCancel(t.Context())
	running := serving.NewGroup(t)
	running.Go(func(testing.TB) { p.Run(ctx) })
	c := p.Connect(pushtest.Proxy(0, "default"), stream.Delta, "")
	t.Cleanup(func() {
		c.Close()
		cancel()
		running.Wait()
	})
	next := func(typeURL string) map[string]string {
		waiting, end := context.WithTimeout(ctx, time.Minute)
		defer end()
		out, err := c.Next(waiting)
		if err != nil || out.TypeURL != typeURL {
			t.Fatalf("Next = %+v, %v; want a response of %s", out, err, typeURL)
		}
		c.Sent(out, 0, 0)
		versions := map[string]string{}
		for _, part := range out.Parts {
			for _, r := range part.Resources() {
				versions[r.Name] = r.Version
			}
		}
		return versions
	}
	c.Request(stream.Request{TypeURL: api.ClusterType})
	next(api.ClusterType)
	var names []string
	for i := range services {
		names = append(names, pushtest.ClusterName(fmt.Sprint("s", i)))
	}
	c.Request(stream.Request{TypeURL: api.EndpointType, Subscribe: names})
	return p, next(api.EndpointType)
}

// TestKnownRequest checks that the request of a proxy that reconnects is decoded by known names and
// versions only if it has no others, and then like any other request.
func TestKnownRequest(t *testing.T) {
	p, versions := servedEndpoints(t, 3000)
	names := slices.Sorted(maps.Keys(versions))
	server := New(Options{Pusher: p})
	for _, c := range []struct {
		name   string
		known  bool
		nodeID string
		change func(*discoveryv3.DeltaDiscoveryRequest)
	}{
		{name: "first request", known: true, change: func(m *discoveryv3.DeltaDiscoveryRequest) { m.Node = &corev3.Node{Id: "n"} }},
		{name: "further request", known: true, nodeID: "n"},
		{name: "without names", known: true, nodeID: "n", change: func(m *discoveryv3.DeltaDiscoveryRequest) {
			m.ResourceNamesSubscribe = nil
		}},
		{name: "without versions", known: true, nodeID: "n", change: func(m *discoveryv3.DeltaDiscoveryRequest) {
			m.InitialResourceVersions, m.ResponseNonce = nil, "7"
		}},
		{name: "without a proxy"},
		{name: "another version", nodeID: "n", change: func(m *discoveryv3.DeltaDiscoveryRequest) {
			m.InitialResourceVersions[names[3]] = "other"
		}},
		{name: "fewer versions", nodeID: "n", change: func(m *discoveryv3.DeltaDiscoveryRequest) {
			delete(m.InitialResourceVersions, names[3])
		}},
		{name: "fewer names", nodeID: "n", change: func(m *discoveryv3.DeltaDiscoveryRequest) {
			m.ResourceNamesSubscribe = m.ResourceNamesSubscribe[1:]
		}},
		{name: "another type", nodeID: "n", change: func(m *discoveryv3.DeltaDiscoveryRequest) { m.TypeUrl = api.ClusterType }},
		{name: "a name unsubscribed", nodeID: "n", change: func(m *discoveryv3.DeltaDiscoveryRequest) {
			m.ResourceNamesUnsubscribe = names[:1]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: api.EndpointType, ResourceNamesSubscribe: slices.Clone(names), InitialResourceVersions: maps.Clone(versions),
			}
			slices.Reverse(m.ResourceNamesSubscribe)
			if c.change != nil {
				c.change(m)
			}
			raw := marshal(t, m)
			got := &request{mode: stream.Delta, session: &session{s: server, nodeID: c.nodeID}}
			if known := got.decodeKnown(mem.BufferSlice{mem.SliceBuffer(raw)}); known != c.known {
				t.Fatalf("decodeKnown = %t, want %t", known, c.known)
			}
			want := incoming{}
			if c.known {
				want, _ = asGenerated(raw, stream.Delta)
				slices.Sort(want.Subscribe)
			}
			got.Interned = nil
			if d := cmp.Diff(want, got.incoming, cmp.AllowUnexported(incoming{}), asMap, protocmp.Transform()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	t.Run("truncated", func(t *testing.T) {
		raw, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{ResourceNamesSubscribe: names})
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := readKnown(raw[:len(raw)-1], p.NewNameSum()); ok {
			t.Error("readKnown accepts a truncated message")
		}
	})
}

// BenchmarkKnownRequest measures the decoding of a request whose names and versions are known.
func BenchmarkKnownRequest(b *testing.B) {
	p, versions := servedEndpoints(b, 4000)
	raw := marshal(b, &discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: api.EndpointType, ResourceNamesSubscribe: slices.Sorted(maps.Keys(versions)), InitialResourceVersions: versions,
	})
	x := &session{s: New(Options{Pusher: p}), nodeID: "n"}
	b.ReportAllocs()
	for b.Loop() {
		r := &request{mode: stream.Delta, session: x}
		if err := r.decodeMessage(mem.BufferSlice{mem.SliceBuffer(raw)}); err != nil || r.raw != "" {
			b.Fatal(err, len(r.raw))
		}
	}
}
