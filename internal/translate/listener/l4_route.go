package listener

import (
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// routed is where some connections go.
type routed struct {
	match Match
	tcp   *TCP
	// rule is the VirtualService that says so, the zero Key if none does; from are all objects that shaped tcp, other
	// than the service.
	rule config.Key
	from []config.Key
}

// tcpRoutes is where the plain connections of a service go: those to some ranges apart, then the rest.
type tcpRoutes struct {
	ranged []routed
	rest   routed
}

// tcpRoutes gives where VirtualServices lead the plain connections of a service port, or else to the service itself. ip is
// the address of the place if it is one: whether it is in a route's subnets is known then.
func (p *planner) tcpRoutes(b bid, ip netip.Addr) tcpRoutes {
	var out tcpRoutes
	for _, vs := range p.rules.of(b.service.Host) {
		for _, r := range vs.Spec.GetTcp() {
			all, subnets := p.tcpMatch(r.GetMatch(), b, ip)
			switch {
			case all:
				out.rest = p.weighted(vs, r.GetRoute(), b)
				return out
			case len(subnets) > 0:
				c := p.weighted(vs, r.GetRoute(), b)
				c.match = Match{Prefixes: subnets}
				out.ranged = append(out.ranged, c)
			}
		}
	}
	out.rest = p.toService(b)
	return out
}

// tcpMatch says whether matches of a TCP route, of which one must hold, take all connections, or else those to which subnets.
func (p *planner) tcpMatch(matches []*networking.L4MatchAttributes, b bid, ip netip.Addr) (all bool, subnets []string) {
	for _, m := range matches {
		if !p.holds(m, b) {
			continue
		}
		to, everywhere := prefixes(m.GetDestinationSubnets())
		if everywhere || ip.IsValid() && within(ip, to) {
			return true, nil
		}
		if !ip.IsValid() {
			subnets = append(subnets, to...)
		}
	}
	slices.Sort(subnets)
	return len(matches) == 0, slices.Compact(subnets)
}

// l4Match is what the matches of TCP and of TLS routes have in common.
type l4Match interface {
	GetPort() uint32
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
}

// holds says whether what of a match is known beforehand holds for a service port and the proxies of this View.
func (p *planner) holds(m l4Match, b bid) bool {
	gateways := m.GetGateways()
	return (m.GetPort() == 0 || m.GetPort() == b.port.Number) &&
		(len(gateways) == 0 || slices.Contains(gateways, snapshot.MeshGateway)) &&
		p.v.SourceMatches(m.GetSourceLabels(), m.GetSourceNamespace())
}

// prefixes reads the destination subnets of a match, leaving out what is none. No subnets at all are all addresses, and so
// is one of no bits.
func prefixes(subnets []string) (list []string, everywhere bool) {
	for _, s := range subnets {
		if prefix, ok := parsePrefix(s); ok {
			list = append(list, prefix.String())
			everywhere = everywhere || prefix.Bits() == 0
		}
	}
	slices.Sort(list)
	return slices.Compact(list), everywhere || len(subnets) == 0
}

func within(ip netip.Addr, subnets []string) bool {
	return slices.ContainsFunc(subnets, func(s string) bool {
		prefix, ok := parsePrefix(s)
		return ok && prefix.Contains(ip)
	})
}

// weighted gives the way that a TCP or TLS route leads. Of several destinations the first one's policy counts.
func (p *planner) weighted(vs *snapshot.VirtualService, routes []*networking.RouteDestination, b bid) routed {
	out := routed{rule: vs.Config.Key, from: slices.Clone(vs.From)}
	shares := destination.Shares(p.v, vs, routes, b.port.Number)
	if len(shares) == 0 {
		out.tcp = forward(mesh.BlackHoleCluster)
		out.tcp.Discovered = !p.in.class.inline
		return out
	}
	first := shares[0].Cluster
	out.tcp = forward(first.String())
	if len(shares) > 1 {
		out.tcp = &TCP{StatPrefix: vs.Config.Name + "." + vs.Config.Namespace}
		for _, s := range shares {
			out.tcp.Clusters = append(out.tcp.Clusters, WeightedCluster{Name: s.Cluster.String(), Weight: s.Weight})
		}
	}
	out.tcp.Mongo, out.tcp.Discovered = b.protocol == mesh.Mongo, !p.in.class.inline
	p.in.follow(&out, p.targets[first.Host].rule, first.Subset, first.Port)
	return out
}

// l4Rules finds the VirtualServices with TCP or TLS routes for a host.
type l4Rules struct {
	list  []*snapshot.VirtualService
	exact map[mesh.Hostname][]int // places in list, in order
	wild  []int                   // places of those that have a wildcard host
}

func newL4Rules(list []*snapshot.VirtualService) l4Rules {
	r := l4Rules{list: list, exact: map[mesh.Hostname][]int{}}
	for i, vs := range list {
		for _, h := range vs.Hosts {
			if !h.IsWildcard() {
				r.exact[h] = append(r.exact[h], i)
			} else if n := len(r.wild); n == 0 || r.wild[n-1] != i {
				r.wild = append(r.wild, i)
			}
		}
	}
	return r
}

// of gives the VirtualServices that have something to say of a host, in the order in which they are tried.
func (r l4Rules) of(host mesh.Hostname) []*snapshot.VirtualService {
	var places []int
	switch {
	case len(r.list) == 0:
		return nil
	case host.IsWildcard():
		for i, vs := range r.list {
			if matches(vs, host) {
				places = append(places, i)
			}
		}
	default:
		places = slices.Clone(r.exact[host])
		for _, i := range r.wild {
			if matches(r.list[i], host) {
				places = append(places, i)
			}
		}
		slices.Sort(places)
	}
	out := make([]*snapshot.VirtualService, 0, len(places))
	for _, i := range slices.Compact(places) {
		out = append(out, r.list[i])
	}
	return out
}

func matches(vs *snapshot.VirtualService, host mesh.Hostname) bool {
	return slices.ContainsFunc(vs.Hosts, host.Matches)
}
