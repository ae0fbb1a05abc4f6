package resource

import (
	"bytes"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestElement decodes the encodings of resources with the generated message types. It checks that
// exactly those with at most maxElement bytes have an Element, and that it ends with their Body.
func TestElement(t *testing.T) {
	const typeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	largest := maxElement
	for elementHead("name", typeURL, largest) == 0 {
		largest--
	}
	for _, size := range []int{0, 1, 100, 127, 128, 300, largest, largest + 1, 20_000} {
		body, err := proto.Marshal(wrapperspb.String(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := Encode("name", typeURL, wrapperspb.String(strings.Repeat("x", size)))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Resource{FromBytes("name", typeURL, body), encoded, FromBytes("name", typeURL, body[:size])} {
			want := &discoveryv3.Resource{
				Name: "name", Version: hash(r.Body), Resource: &anypb.Any{TypeUrl: typeURL, Value: r.Body},
			}
			delta := append(r.AppendDeltaHead(nil), r.Body...)
			if diff := cmp.Diff(&discoveryv3.DeltaDiscoveryResponse{Resources: []*discoveryv3.Resource{want}},
				decode(t, delta, new(discoveryv3.DeltaDiscoveryResponse)), protocmp.Transform()); diff != "" {
				t.Errorf("%d bytes, delta: %s", size, diff)
			}
			sotw := append(r.AppendSotWHead(nil), r.Body...)
			if diff := cmp.Diff(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{want.GetResource()}},
				decode(t, sotw, new(discoveryv3.DiscoveryResponse)), protocmp.Transform()); diff != "" {
				t.Errorf("%d bytes, state of the world: %s", size, diff)
			}
			switch e := r.Element; {
			case (len(delta) <= maxElement) != (e != nil):
				t.Errorf("%d bytes: the element has %d", len(delta), len(e))
			case e == nil:
			case !bytes.Equal(e, delta):
				t.Errorf("%d bytes: the element is %x, want %x", size, e, delta)
			case len(r.Body) > 0 && &e[len(e)-1] != &r.Body[len(r.Body)-1]:
				t.Errorf("%d bytes: the body has memory of its own", size)
			}
		}
		if !bytes.Equal(encoded.Body, body) {
			t.Errorf("%d bytes: Encode has another body than proto.Marshal", size)
		}
	}
}

func decode(t *testing.T, b []byte, into proto.Message) proto.Message {
	t.Helper()
	if err := proto.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
	return into
}
