package mesh

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// GatewayObject is an object that is no Service and says which gateways lead into a network: a Gateway of the Gateway API. It is
// immutable.
type GatewayObject struct {
	// Cluster is where the object is, From its key there.
	Cluster ClusterID
	From    config.Key
	// Gateways are sorted. Their addresses are IPs or DNS names.
	Gateways []NetworkGateway
}

// Equal says that both say the same; nil says nothing.
func (g *GatewayObject) Equal(o *GatewayObject) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.Cluster == o.Cluster && g.From == o.From && slices.Equal(g.Gateways, o.Gateways)
}
