package discovery

import (
	"fmt"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// TestRefusedClientIsAProblem: a proxy in plain text that names more endpoints than fit in a message is
// refused, and a Problem names it and the setting to raise.
func TestRefusedClientIsAProblem(t *testing.T) {
	c := start(t, nil)
	conn, err := grpc.NewClient(c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	st, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: sidecar.Node("large", "default", "10.9.0.1", nil)}
	second := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.EndpointType}
	for i := range 20_000 {
		second.ResourceNamesSubscribe = append(second.ResourceNamesSubscribe,
			fmt.Sprintf("outbound|8080|v1|service-%05d.namespace.svc.cluster.local", i))
	}
	if err := st.Send(first); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := st.Send(second); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"large.default", "MESHPILOT_XDS_SMALL_REQUEST_BYTES", "MP0016"} {
		c.eventually(want, c.shows("/debug/problemz", want, true))
	}
}
