package server

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// FuzzNode parses any node that protobuf can decode: it is refused, or yields a proxy with a type,
// and with the namespace of its metadata if that is set.
func FuzzNode(f *testing.F) {
	for _, text := range []string{
		`{"id":"sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local","metadata":{"NAMESPACE":"shop","LABELS":{"a":"b"},"INSTANCE_IPS":"10.0.0.1,x"}}`,
		`{"id":"router~::1~a.b~c","metadata":{"PROXY_CONFIG":{"concurrency":"x"},"LABELS":"x"}}`, `{"id":"~~~"}`, `{"id":"waypoint~1.2.3.4~a.b~c","metadata":{"":null}}`,
		`{"id":"sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local","extensions":[{"name":"a","category":"envoy.filters.http"}],"metadata":{"CLUSTER_ID":"x","GENERATOR":"grpc"}}`,
	} {
		n := new(corev3.Node)
		if err := protojson.Unmarshal([]byte(text), n); err != nil {
			f.Fatal(err)
		}
		raw, err := proto.Marshal(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	s := New(Options{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := compareNode(t, &s.extensions, raw)
		if n == nil {
			return
		}
		p, err := s.parseNode(n, nil)
		if err != nil {
			return
		}
		if namespace := n.GetMetadata().GetFields()["NAMESPACE"].GetStringValue(); p.Type == "" ||
			namespace != "" && p.Namespace != namespace {
			t.Errorf("proxy of %v = %+v", n, p)
		}
	})
}

// FuzzEnvelope checks that protobuf decodes any response to its input, and that its size is r.size.
func FuzzEnvelope(f *testing.F) {
	f.Add("v1", "7", "a", []byte("body"), "gone", "me", true)
	f.Add("", "", "", []byte{}, "", "", false)
	f.Add("v\xff", "n", strings.Repeat("x", 600), []byte(strings.Repeat("y", 700)), "", "pilot", true)
	f.Fuzz(func(t *testing.T, version, nonce, name string, body []byte, removed, identifier string, delta bool) {
		for _, s := range []string{version, nonce, name, removed, identifier} {
			if !utf8.ValidString(s) {
				return // protobuf's strings are UTF-8
			}
		}
		list := []*resource.Resource{
			resource.FromBytes(name, api.RouteType, body),
			resource.FromBytes(name+"2", api.RouteType, append(body, body...)),
		}
		s := &stream.Send{
			TypeURL: api.RouteType,
			Version: version,
			Nonce:   nonce,
			Parts:   []*stream.Payload{stream.NewPayload(list)},
		}
		if delta {
			s.Removed = []string{removed}
			m := new(discoveryv3.DeltaDiscoveryResponse)
			unmarshalResponse(t, newResponse(s, stream.Delta, identifier, new([]byte)), m)
			if m.SystemVersionInfo != version || m.Nonce != nonce || m.RemovedResources[0] != removed || len(m.Resources) != 2 || m.Resources[0].Name != name ||
				!bytes.Equal(m.Resources[0].Resource.Value, body) ||
				m.Resources[1].Version != list[1].Version ||
				m.ControlPlane.GetIdentifier() != identifier {
				t.Errorf("decoded as %v", m)
			}
			return
		}
		m := new(discoveryv3.DiscoveryResponse)
		unmarshalResponse(t, newResponse(s, stream.SotW, identifier, new([]byte)), m)
		if m.VersionInfo != version || m.Nonce != nonce || len(m.Resources) != 2 ||
			!bytes.Equal(m.Resources[1].Value, list[1].Body) ||
			m.Resources[0].TypeUrl != api.RouteType {
			t.Errorf("decoded as %v", m)
		}
	})
}

func unmarshalResponse(t *testing.T, r *response, into proto.Message) {
	t.Helper()
	b := append(r.buffers.Materialize(), *r.envelope...)
	if len(b) != r.size {
		t.Errorf("encoded size = %d, but r.size = %d", len(b), r.size)
	}
	if err := proto.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}
