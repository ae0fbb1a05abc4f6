package cluster

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
)

// sniDNATInput is everything that a cluster depends on to which a gateway forwards TLS by server
// name (AUTO_PASSTHROUGH).
type sniDNATInput struct{ OutboundInput }

// SNIDNATClusters returns the clusters to which the servers of a gateway forward TLS between
// proxies by server name (AUTO_PASSTHROUGH): one for each server name that the listeners match. It
// returns nil for proxies that are not gateways.
func (g *Generator) SNIDNATClusters(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.RouterProxy {
		return nil
	}
	var list []*resource.Resource
	seen := map[mesh.ClusterName]bool{}
	for _, l := range v.Gateway().Listeners {
		for _, s := range l.Servers {
			if !s.IsAutoPassthrough() {
				continue
			}
			for n := range s.SNIClusters(v) {
				if !seen[n] {
					seen[n] = true
					list = append(list, g.sniDNATs.Get(g.sniDNATInput(v, n)))
				}
			}
		}
	}
	return list
}

// sniDNATInput returns the input of the SNI cluster for the outbound cluster n, whose service must
// be in the View.
func (g *Generator) sniDNATInput(v *view.View, n mesh.ClusterName) sniDNATInput {
	svc := v.Service(n.Host)
	return sniDNATInput{g.complete(v, OutboundInput{
		Service:  svc,
		Port:     n.Port,
		Subset:   n.Subset,
		Rule:     v.DestinationRule(n.Host),
		Settings: v.Settings,
		Proxy:    ProxyOf(v),
	})}
}

// encodeSNIDNAT returns the outbound cluster of the service, renamed to its server name
// (DefaultSNI) and encoded. EDS and statistics use that name too. It has no TLS and HTTP options,
// because the gateway forwards the caller's bytes. Embedded endpoints are only those with mutual
// TLS, because the gateway cannot authenticate the callers.
func encodeSNIDNAT(in sniDNATInput) *resource.Resource {
	in.Endpoints = endpoint.MutualTLS(in.Endpoints)
	c := Outbound(in.OutboundInput)
	c.Name = in.Name().DefaultSNI()
	c.AltStatName = c.Name + ";"
	if c.GetEdsClusterConfig() != nil {
		c.EdsClusterConfig.ServiceName = c.Name
	}
	c.TransportSocket, c.TransportSocketMatches, c.TypedExtensionProtocolOptions = nil, nil, nil
	return encodeCluster(c, objectKeys(in.Service, in.Rule)...)
}

// SNIDNATTouched reports whether a change may alter the result of SNIDNATClusters. It returns true
// for any change of services, DestinationRules, accounts or the View's Gateways, and always false
// for Views of proxies that are not gateways.
func SNIDNATTouched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	if v.Key.Type != mesh.RouterProxy {
		return false
	}
	return d.All || len(d.Services) > 0 || len(d.Rules) > 0 || len(d.Accounts) > 0 ||
		v.IsAnyAttachedChanged(d, api.Gateway)
}
