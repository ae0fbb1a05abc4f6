package cluster

import (
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// handedOnInput is all that a cluster depends on to which a gateway hands TLS on as it comes (AUTO_PASSTHROUGH).
type handedOnInput struct{ OutboundInput }

// HandedOn gives the clusters to which the servers of a gateway hand on TLS between proxies: one for each that the listeners name.
func (g *Generator) HandedOn(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.RouterProxy {
		return nil
	}
	var list []*resource.Resource
	seen := map[mesh.ClusterName]bool{}
	for _, l := range v.Gateway().Listeners {
		for _, s := range l.Servers {
			if !s.AutoPassthrough() {
				continue
			}
			for n := range s.SNIClusters(v) {
				if !seen[n] {
					seen[n] = true
					list = append(list, g.handedOn.Get(g.handedOnInput(v, n)))
				}
			}
		}
	}
	return list
}

func (g *Generator) handedOnInput(v *view.View, n mesh.ClusterName) handedOnInput {
	svc := v.Service(n.Host)
	return handedOnInput{g.completed(v, OutboundInput{
		Service: svc, Port: n.Port, Subset: n.Subset, Rule: v.DestinationRule(n.Host), Settings: v.Settings, Proxy: ProxyOf(v),
	})}
}

// encodedHandedOn makes the cluster: that by which the service is called but for the name, and without a word on what the
// bytes are, which are the caller's.
func encodedHandedOn(in handedOnInput) *resource.Resource {
	c := Outbound(in.OutboundInput)
	c.Name = in.Name().DefaultSNI()
	c.AltStatName = c.Name + ";"
	c.TransportSocket, c.TransportSocketMatches, c.TypedExtensionProtocolOptions = nil, nil, nil
	if c.GetEdsClusterConfig() != nil {
		c.EdsClusterConfig.ServiceName = c.Name
	}
	return encoded(c, from(in.Service, in.Rule)...)
}

// HandedOnTouched says whether a change may alter what HandedOn gives.
func HandedOnTouched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	if v.Key.Type != mesh.RouterProxy {
		return false
	}
	if d.All || len(d.Services) > 0 || len(d.Rules) > 0 || len(d.Accounts) > 0 {
		return true
	}
	for k := range d.Configs {
		if v.Key.Gateway.Names.Has(k) {
			return true
		}
	}
	return false
}
