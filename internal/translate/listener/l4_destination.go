package listener

import (
	"cmp"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// weighted returns the destinations of a TCP or TLS route of vs for the port of b, by
// destination.Shares. The policy is that of the first share, without its subset if the route has
// several destinations. Without a share, also if all weights are 0, connections are refused.
func (r *router) weighted(vs *snapshot.VirtualService, routes []*networking.RouteDestination, b servicePort) routed {
	out := routed{rule: vs.Config.Key, from: slices.Clone(vs.From)}
	shares := destination.Shares(r.v, vs, routes, b.port.Number)
	if len(shares) == 0 {
		out.tcp = forwardTo(mesh.BlackHoleCluster)
		out.tcp.Discovered = !r.in.class.inline
		return out
	}
	first := shares[0].Cluster
	out.tcp = forwardTo(first.String())
	out.tcp.StatPrefix = r.statPrefix(r.targets[first.Host].service, first, b.port)
	if len(shares) > 1 {
		out.tcp = &TCP{StatPrefix: vs.Config.Name + "." + vs.Config.Namespace}
		for _, s := range shares {
			out.tcp.Clusters = append(out.tcp.Clusters, WeightedCluster{Name: s.Cluster.String(), Weight: s.Weight})
		}
	}
	out.tcp.Mongo, out.tcp.Discovered = b.protocol == mesh.Mongo, !r.in.class.inline
	if len(routes) > 1 { // The subset's policy would apply to the connections of the others.
		first.Subset = ""
	}
	r.in.applyPolicy(&out, r.targets[first.Host].rule, first.Subset, first.Port)
	return out
}

// statPrefix returns the prefix of the statistics of a TCP proxy that listens for port and forwards
// to the cluster c of svc: from MeshConfig.outboundClusterStatName, or the name of the cluster if
// that is unset or svc is nil.
func (r *router) statPrefix(svc *mesh.Service, c mesh.ClusterName, port mesh.Port) string {
	pattern := r.in.settings.Mesh.GetOutboundClusterStatName()
	return cmp.Or(destination.StatName(pattern, svc, port, c.Subset, 0), c.String())
}

// toService returns the service itself as destination, with the policy of its DestinationRule.
// Redis has its own filter only if the feature is on. Names are resolved only for a dynamic service
// (resolution DYNAMIC_DNS).
func (r *router) toService(b servicePort) routed {
	c := mesh.ClusterName{Direction: mesh.Outbound, Port: b.port.Number, Host: b.service.Host}
	out := routed{tcp: forwardTo(c.String())}
	out.tcp.StatPrefix = r.statPrefix(b.service, c, b.port)
	out.tcp.Mongo = b.protocol == mesh.Mongo
	if b.service.Resolution == mesh.DynamicDNS {
		out.tcp.Lookup = r.family.lookup
		if b.port.Protocol.IsTLS() {
			out.tcp.Lookup.Port = b.port.Target
		}
	}
	out.tcp.Redis = b.protocol == mesh.Redis && r.in.settings.Features.RedisFilter
	r.in.applyPolicy(&out, b.rule, "", b.port.Number)
	return out
}

// applyPolicy sets the fields of c.tcp that depend on the traffic policy of its cluster (subset and
// port): source IP hash, timeouts and tunnel. Fields that the policy does not have are set to zero.
// It adds the objects of r to c.from. Without r, which may be nil, the mesh settings apply.
func (in *outboundInput) applyPolicy(c *routed, r *snapshot.DestinationRule, subset string, port uint32) {
	var spec *networking.DestinationRule
	if r != nil {
		spec = r.Spec
		c.from = append(c.from, r.From...)
	}
	p := policy.Of(in.settings.Mesh, spec, subset, port)
	c.tcp.SourceIPHash = p.GetLoadBalancer().GetConsistentHash().GetUseSourceIp()
	pool := p.GetConnectionPool().GetTcp()
	c.tcp.IdleTimeoutMS = milliseconds(pool.GetIdleTimeout())
	c.tcp.MaxDurationMS = max(milliseconds(pool.GetMaxConnectionDuration()), 0)
	tunnel := policy.TunnelOf(spec, subset)
	c.tcp.Tunnel, c.tcp.TunnelByPost = tunnel.Target, tunnel.Post
}
