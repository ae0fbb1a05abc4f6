package compat

import (
	"context"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
)

// TestClientsOfOtherKinds checks the response to xDS v3 clients that are no Istio proxies. As with
// istiod, a node without an id, or with an id in another form than Istio's, is refused as an
// invalid argument, with a message that names the error. A node with only an id is served.
func TestClientsOfOtherKinds(t *testing.T) {
	o := controlplane.Options(t)
	o.Registries, o.ConfigDir = nil, t.TempDir()
	p := controlplane.Start(t, o)
	conn, err := grpc.NewClient("passthrough:///"+p.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for _, c := range []struct {
		name string
		node *corev3.Node
		want string // in the error; "": it is served
	}{
		{"no node", nil, "node.id is missing"},
		{"an empty node", &corev3.Node{}, "node.id is missing"},
		{"a cluster without an id", &corev3.Node{Cluster: "web"}, "node.id is missing"},
		{"an id of another form", &corev3.Node{Id: "test-id"}, `node id "test-id": want type~ip~name.namespace~domain`},
		{"an id of Istio's form and nothing else", &corev3.Node{Id: "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local"}, ""},
	} {
		for protocol, ask := range map[string]func(context.Context, *grpc.ClientConn, *corev3.Node) error{"SotW": askSotW, "delta": askDelta} {
			t.Run(c.name+", "+protocol, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				err := ask(ctx, conn, c.node)
				switch {
				case c.want == "" && err != nil:
					t.Errorf("it is refused: %v", err)
				case c.want != "" && (status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.want)):
					t.Errorf("error %v, want InvalidArgument with %q", err, c.want)
				}
			})
		}
	}
}

// askSotW requests the clusters, and waits for the response.
func askSotW(ctx context.Context, conn *grpc.ClientConn, node *corev3.Node) error {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&discoveryv3.DiscoveryRequest{TypeUrl: api.ClusterType, Node: node}); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}

func askDelta(ctx context.Context, conn *grpc.ClientConn, node *corev3.Node) error {
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: api.ClusterType, Node: node}); err != nil {
		return err
	}
	_, err = stream.Recv()
	return err
}
