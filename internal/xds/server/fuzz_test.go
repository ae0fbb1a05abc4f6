package server

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// FuzzNode reads any node that protobuf reads: it is refused, or is a proxy with a type, and with a namespace if it says one.
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
		n := new(corev3.Node)
		if proto.Unmarshal(raw, n) != nil {
			return
		}
		p, err := s.proxy(n)
		if err != nil {
			return
		}
		if said := n.GetMetadata().GetFields()["NAMESPACE"].GetStringValue(); p.Type == "" || said != "" && p.Namespace != said {
			t.Errorf("%v is %+v", n, p)
		}
	})
}
