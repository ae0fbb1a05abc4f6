package xds

import (
	"cmp"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Node is what the control plane says of itself to config sources.
type Node struct {
	// Namespace and PodName are its own; IP is its address, of which servers only ask that it is one.
	Namespace, PodName, IP string
	ClusterID              mesh.ClusterID
	// Domain is the DNS suffix of services.
	Domain string
}

// generator is the node metadata GENERATOR by which Istio's servers know that a client wants config objects rather than
// Envoy's resources.
const generator = "api"

// message gives the Node of the first request. Its ID has the form of a proxy's, because Istio's servers read it as one.
func (n Node) message() *corev3.Node {
	namespace := cmp.Or(n.Namespace, "istio-system")
	text := structpb.NewStringValue
	return &corev3.Node{
		Id: fmt.Sprintf("sidecar~%s~%s.%s~%s.svc.%s",
			cmp.Or(n.IP, "127.0.0.1"), cmp.Or(n.PodName, "pilot-discovery"), namespace, namespace, cmp.Or(n.Domain, "cluster.local")),
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"GENERATOR": text(generator), "NAMESPACE": text(namespace), "CLUSTER_ID": text(string(n.ClusterID)),
		}},
		UserAgentName: "meshpilot",
	}
}
