package server

import (
	"fmt"
	"maps"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	statusv3 "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// asGenerated decodes a message with its generated code.
func asGenerated(raw []byte, mode stream.Mode) (incoming, error) {
	if mode == stream.Delta {
		m := new(discoveryv3.DeltaDiscoveryRequest)
		err := proto.Unmarshal(raw, m)
		return incoming{Request: stream.Request{
			TypeURL:     m.TypeUrl,
			Nonce:       m.ResponseNonce,
			Subscribe:   m.ResourceNamesSubscribe,
			Unsubscribe: m.ResourceNamesUnsubscribe,
			Held: stream.HoldingsOf(
				m.InitialResourceVersions,
			),
			Rejected: m.ErrorDetail != nil,
			Message:  m.ErrorDetail.GetMessage(),
		}, node: withoutExtensions(m.Node), extensions: extensionNames(m.Node.GetExtensions())}, err
	}
	m := new(discoveryv3.DiscoveryRequest)
	err := proto.Unmarshal(raw, m)
	return incoming{Request: stream.Request{
		TypeURL: m.TypeUrl, Nonce: m.ResponseNonce, Version: m.VersionInfo, Names: m.ResourceNames,
		Rejected: m.ErrorDetail != nil, Message: m.ErrorDetail.GetMessage(),
	}, node: withoutExtensions(m.Node), extensions: extensionNames(m.Node.GetExtensions())}, err
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func requests(t testing.TB) map[stream.Mode][][]byte {
	t.Helper()
	node := &corev3.Node{
		Id: "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local", Cluster: "web.shop",
		Extensions: []*corev3.Extension{{Name: "b", Category: "c"}, {Name: "a"}},
	}
	refused := &statusv3.Status{Code: 13, Message: "no such thing"}
	return map[stream.Mode][][]byte{
		stream.Delta: {
			nil,
			marshal(
				t,
				&discoveryv3.DeltaDiscoveryRequest{
					Node:                     node,
					TypeUrl:                  "t",
					ResourceNamesSubscribe:   []string{"a", "b"},
					ResourceNamesUnsubscribe: []string{"c"},
				},
			),
			marshal(
				t,
				&discoveryv3.DeltaDiscoveryRequest{
					TypeUrl:                 "t",
					InitialResourceVersions: map[string]string{"a": "1", "b": "", "": "2"},
				},
			),
			marshal(t, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", ResponseNonce: "7", ErrorDetail: refused}),
			marshal(
				t,
				&discoveryv3.DeltaDiscoveryRequest{
					ErrorDetail:               new(statusv3.Status),
					ResourceLocatorsSubscribe: []*discoveryv3.ResourceLocator{{Name: "x"}},
				},
			),
		},
		stream.SotW: {
			nil,
			marshal(
				t,
				&discoveryv3.DiscoveryRequest{
					Node:          node,
					TypeUrl:       "t",
					VersionInfo:   "3",
					ResourceNames: []string{"a", "b"},
				},
			),
			marshal(t, &discoveryv3.DiscoveryRequest{TypeUrl: "t", ResponseNonce: "7", ErrorDetail: refused}),
		},
	}
}

var asMap = cmp.Transformer("held", func(h *stream.Holdings) map[string]string { return maps.Collect(h.All()) })

func compareRequest(t *testing.T, raw []byte, mode stream.Mode) {
	t.Helper()
	want, wantErr := asGenerated(raw, mode)
	got := &request{mode: mode}
	err := got.decodeData(mem.BufferSlice{mem.SliceBuffer(raw)})
	if wantErr != nil {
		return // the hand-written decoder may accept malformed fields that it skips
	}
	if err != nil {
		t.Fatal(err)
	}
	got.raw = ""
	if d := cmp.Diff(
		want,
		got.incoming,
		cmp.AllowUnexported(incoming{}),
		asMap,
		protocmp.Transform(),
		cmpopts.EquateEmpty(),
	); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRequestsAreReadAsTheyAre(t *testing.T) {
	for mode, list := range requests(t) {
		for _, raw := range list {
			compareRequest(t, raw, mode)
		}
	}
}

// FuzzRequest checks that the hand-written decoder returns what generated code returns for any
// input.
func FuzzRequest(f *testing.F) {
	for mode, list := range requests(f) {
		for _, raw := range list {
			f.Add(raw, mode == stream.Delta)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, delta bool) {
		mode := stream.SotW
		if delta {
			mode = stream.Delta
		}
		compareRequest(t, raw, mode)
	})
}

func BenchmarkRequestWithState(b *testing.B) {
	m := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "t", InitialResourceVersions: map[string]string{}}
	for i := range 4_000 {
		name := fmt.Sprintf("outbound|80||service-%04d.namespace.svc.cluster.local", i)
		m.InitialResourceVersions[name] = "0123456789abcdef"
		m.ResourceNamesSubscribe = append(m.ResourceNamesSubscribe, name)
	}
	raw := marshal(b, m)
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := (&request{mode: stream.Delta}).decodeData(mem.BufferSlice{mem.SliceBuffer(raw)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := asGenerated(raw, stream.Delta); err != nil {
				b.Fatal(err)
			}
		}
	})
}
