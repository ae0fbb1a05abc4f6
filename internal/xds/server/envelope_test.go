package server

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

func payload(bodies ...string) *stream.Payload {
	var list []*resource.Resource
	for i, b := range bodies {
		list = append(list, resource.FromBytes(fmt.Sprint("r", i), api.RouteType, []byte(b)))
	}
	return stream.NewPayload(list)
}

// TestResponseEqualsProtobufEncoding decodes responses with the generated message types.
func TestResponseEqualsProtobufEncoding(t *testing.T) {
	big := strings.Repeat("x", 3000)
	tests := []struct {
		name  string
		parts []*stream.Payload
		gone  []string
	}{
		{"nothing", nil, nil},
		{"small ones", []*stream.Payload{payload("a", "", "ccc")}, nil},
		{"big ones", []*stream.Payload{payload(big, big)}, nil},
		{
			"mixed, in parts",
			[]*stream.Payload{payload("a", big, "b", big+"2"), payload(), payload(big), payload("z")},
			nil,
		},
		{"removed", []*stream.Payload{payload("a")}, []string{"gone", "too"}},
		{"just at the limit", []*stream.Payload{payload(big[:small], big[:small+1])}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &stream.Send{TypeURL: api.RouteType, Version: "v1", Nonce: "7", Parts: tt.parts, Removed: tt.gone}
			control := &corev3.ControlPlane{Identifier: "me"}
			delta := &discoveryv3.DeltaDiscoveryResponse{
				TypeUrl:           api.RouteType,
				SystemVersionInfo: "v1",
				Nonce:             "7",
				RemovedResources:  tt.gone,
				ControlPlane:      control,
			}
			sotw := &discoveryv3.DiscoveryResponse{
				TypeUrl:      api.RouteType,
				VersionInfo:  "v1",
				Nonce:        "7",
				ControlPlane: control,
			}
			for _, p := range tt.parts {
				for _, r := range p.Resources() {
					body := &anypb.Any{TypeUrl: r.TypeURL, Value: r.Body}
					delta.Resources = append(
						delta.Resources,
						&discoveryv3.Resource{Name: r.Name, Version: r.Version, Resource: body},
					)
					sotw.Resources = append(sotw.Resources, body)
				}
			}
			for range 2 { // the second one from the cached encoding
				decodesTo(t, newResponse(s, stream.Delta, "me", new([]byte)), delta)
				decodesTo(t, newResponse(s, stream.SotW, "me", new([]byte)), sotw)
			}
		})
	}
}

func decodesTo(t *testing.T, r *response, want proto.Message) {
	t.Helper()
	b := append(r.buffers.Materialize(), *r.envelope...)
	if len(b) != r.size {
		t.Errorf("encoded size = %d, but r.size = %d", len(b), r.size)
	}
	got := want.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("response (-want +got):\n%s", d)
	}
}

// TestBigBodiesAreNotCopied compares addresses. In delta a resource is a single buffer, unless it is
// too large for Resource.Element.
func TestBigBodiesAreNotCopied(t *testing.T) {
	for _, c := range []struct {
		size    int
		mode    stream.Mode
		buffers int
	}{
		{3000, stream.Delta, 1}, {3000, stream.SotW, 2}, {30_000, stream.Delta, 2}, {30_000, stream.SotW, 2},
	} {
		p := payload(strings.Repeat("x", c.size))
		r := newResponse(&stream.Send{Parts: []*stream.Payload{p}}, c.mode, "", new([]byte))
		if len(r.buffers) != c.buffers {
			t.Errorf("%s, %d bytes: %d buffers, want %d", c.mode, c.size, len(r.buffers), c.buffers)
		}
		body, last := p.Resources()[0].Body, r.buffers[len(r.buffers)-1].ReadOnlyData()
		if &last[len(last)-1] != &body[len(body)-1] {
			t.Errorf("%s, %d bytes: a body was copied", c.mode, c.size)
		}
	}
}

// BenchmarkResponse measures encoding one response for one more stream: of one endpoint, and of
// 1,000 clusters.
func BenchmarkResponse(b *testing.B) {
	for name, p := range map[string]*stream.Payload{"1x300B": benchPayload(1, 300), "1000x1300B": benchPayload(1000, 1300)} {
		b.Run(name, func(b *testing.B) {
			s := &stream.Send{
				TypeURL: api.ClusterType,
				Version: "0123456789abcdef",
				Nonce:   "17",
				Parts:   []*stream.Payload{p},
			}
			envelope := make([]byte, 0, tracked)
			newResponse(s, stream.Delta, "", &envelope)
			b.ReportAllocs()
			for b.Loop() {
				envelope = envelope[:0]
				newResponse(s, stream.Delta, "", &envelope)
			}
		})
	}
}

// BenchmarkPayload measures the encoding that all streams share.
func BenchmarkPayload(b *testing.B) {
	p := benchPayload(1000, 1300)
	b.ReportAllocs()
	for b.Loop() {
		encodeDelta(p.Resources())
	}
}

// BenchmarkProtobuf measures, for comparison, every stream marshalling its own message.
func BenchmarkProtobuf(b *testing.B) {
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: api.ClusterType, Nonce: "17"}
	for _, r := range benchPayload(1000, 1300).Resources() {
		m.Resources = append(
			m.Resources,
			&discoveryv3.Resource{
				Name:     r.Name,
				Version:  r.Version,
				Resource: &anypb.Any{TypeUrl: r.TypeURL, Value: r.Body},
			},
		)
	}
	c := newCodec(newPort(Limits{}))
	b.ReportAllocs()
	for b.Loop() {
		out, err := c.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		out.Free()
	}
}

func benchPayload(n, size int) *stream.Payload {
	var list []*resource.Resource
	for i := range n {
		list = append(
			list,
			resource.FromBytes(
				fmt.Sprintf("outbound|80||service-%d.default.svc.cluster.local", i),
				api.ClusterType,
				make([]byte, size),
			),
		)
	}
	return stream.NewPayload(list)
}
