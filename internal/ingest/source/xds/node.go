package xds

import (
	"cmp"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Node is the description of the control plane that config sources receive.
type Node struct {
	// Namespace and PodName identify the control plane. IP is its address; servers only require a
	// valid one.
	Namespace, PodName, IP string
	ClusterID              mesh.ClusterID
	// Domain is the DNS suffix of services.
	Domain string
}

// generator is the node metadata GENERATOR by which Istio's servers recognize clients that request
// config objects instead of Envoy resources.
const generator = "api"

// Description returns the Node of the first request. Its ID has the form of a proxy's, because
// Istio's servers parse it as one. Empty fields default to namespace istio-system, pod
// pilot-discovery, IP 127.0.0.1 and domain cluster.local; ClusterID has no default.
func (n Node) Description() *corev3.Node {
	namespace := cmp.Or(n.Namespace, "istio-system")
	text := structpb.NewStringValue
	return &corev3.Node{
		Id: fmt.Sprintf(
			"sidecar~%s~%s.%s~%s.svc.%s",
			cmp.Or(
				n.IP,
				"127.0.0.1",
			),
			cmp.Or(n.PodName, "pilot-discovery"),
			namespace,
			namespace,
			cmp.Or(n.Domain, "cluster.local"),
		),
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"GENERATOR": text(generator), "NAMESPACE": text(namespace), "CLUSTER_ID": text(string(n.ClusterID)),
		}},
		UserAgentName: "meshpilot",
	}
}
