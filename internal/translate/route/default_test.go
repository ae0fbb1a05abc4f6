package route

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

func inboundExample() *routev3.RouteConfiguration {
	return Inbound(mesh.ClusterName{Direction: mesh.Inbound, Port: 8080}, "reviews.default.svc.cluster.local", 9080)
}

func TestInbound(t *testing.T) {
	want := new(routev3.RouteConfiguration)
	err := prototext.Unmarshal([]byte(`
		name: "inbound|8080||"
		validate_clusters {}
		virtual_hosts {
			name: "inbound|http|9080"
			domains: "*"
			routes {
				name: "default"
				match { prefix: "/" }
				decorator { operation: "reviews.default.svc.cluster.local:9080/*" }
				route {
					cluster: "inbound|8080||"
					timeout {}
					max_stream_duration { max_stream_duration {} grpc_timeout_header_max {} }
					retry_policy { retry_on: "reset-before-request" num_retries { value: 2 } }
				}
			}
		}`), want)
	if err != nil {
		t.Fatal(err)
	}
	if got := inboundExample(); !proto.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", prototext.Format(got), prototext.Format(want))
	}
}
