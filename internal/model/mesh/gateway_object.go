package mesh

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// GatewayObject is an object other than a Service that defines gateways of networks: a Gateway of
// the Gateway API. It is immutable.
type GatewayObject struct {
	// Cluster is the cluster of the object, and From its key there.
	Cluster ClusterID
	From    config.Key
	// Gateways are sorted. Their addresses are IP addresses or DNS names.
	Gateways []NetworkGateway
}

// Equal reports whether both have the same cluster, object and gateways in the same order. Two nil
// objects are equal.
func (g *GatewayObject) Equal(o *GatewayObject) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.Cluster == o.Cluster && g.From == o.From && slices.Equal(g.Gateways, o.Gateways)
}
