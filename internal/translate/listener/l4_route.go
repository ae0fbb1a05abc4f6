package listener

import (
	"cmp"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// routed is the destination of some connections.
type routed struct {
	match Match
	tcp   *TCP
	// rule is the VirtualService that routes them, or the zero Key. from are all objects that tcp
	// derives from, except the service.
	rule config.Key
	from []config.Key
}

// tcpRoutes is the destinations of the raw connections of a service: by destination range, then for
// the rest.
type tcpRoutes struct {
	ranged []routed
	rest   routed
}

// tcpRoutes returns the destinations of the raw connections of a service port: by VirtualServices,
// or else the service itself. ip is the address of the listener if it is a single one; destination
// subnets are evaluated against it.
func (p *planner) tcpRoutes(b servicePort, ip netip.Addr) tcpRoutes {
	var out tcpRoutes
	for _, vs := range p.rules.rulesFor(b.service.Host) {
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

// tcpMatch reports whether the matches of a TCP route match all connections to b, at ip if it is
// valid. Otherwise it returns the destination subnets that they match, sorted; with a valid ip
// these are none. No matches match everything.
func (p *planner) tcpMatch(
	matches []*networking.L4MatchAttributes,
	b servicePort,
	ip netip.Addr,
) (all bool, subnets []string) {
	for _, m := range matches {
		if !p.applies(m, b) {
			continue
		}
		to, everywhere := parseSubnets(m.GetDestinationSubnets())
		if everywhere || ip.IsValid() && containsIP(ip, to) {
			return true, nil
		}
		if !ip.IsValid() {
			subnets = append(subnets, to...)
		}
	}
	slices.Sort(subnets)
	return len(matches) == 0, slices.Compact(subnets)
}

// l4Match is the common interface of the matches of TCP and TLS routes.
type l4Match interface {
	GetPort() uint32
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
}

// applies reports whether the static conditions of a match apply to a service port and the View's
// proxies.
func (p *planner) applies(m l4Match, b servicePort) bool {
	gateways := m.GetGateways()
	return (m.GetPort() == 0 || m.GetPort() == b.port.Number) &&
		(len(gateways) == 0 || slices.Contains(gateways, snapshot.MeshGateway)) &&
		p.v.SourceMatches(m.GetSourceLabels(), m.GetSourceNamespace())
}

// parseSubnets parses the destination subnets of a match and ignores invalid ones. everywhere is
// set if there are none, or one covers all addresses.
func parseSubnets(subnets []string) (list []string, everywhere bool) {
	for _, s := range subnets {
		if prefix, ok := parsePrefix(s); ok {
			list = append(list, prefix.String())
			everywhere = everywhere || prefix.Bits() == 0
		}
	}
	slices.Sort(list)
	return slices.Compact(list), everywhere || len(subnets) == 0
}

func containsIP(ip netip.Addr, subnets []string) bool {
	return slices.ContainsFunc(subnets, func(s string) bool {
		prefix, ok := parsePrefix(s)
		return ok && prefix.Contains(ip)
	})
}

// weighted returns the destinations of a TCP or TLS route. If there are several, the policy of the
// first applies. Without any, connections are refused.
func (p *planner) weighted(vs *snapshot.VirtualService, routes []*networking.RouteDestination, b servicePort) routed {
	out := routed{rule: vs.Config.Key, from: slices.Clone(vs.From)}
	shares := destination.Shares(p.v, vs, routes, b.port.Number)
	if len(shares) == 0 {
		out.tcp = forwardTo(mesh.BlackHoleCluster)
		out.tcp.Discovered = !p.in.class.inline
		return out
	}
	first := shares[0].Cluster
	out.tcp = forwardTo(first.String())
	if len(shares) > 1 {
		out.tcp = &TCP{StatPrefix: vs.Config.Name + "." + vs.Config.Namespace}
		for _, s := range shares {
			out.tcp.Clusters = append(out.tcp.Clusters, WeightedCluster{Name: s.Cluster.String(), Weight: s.Weight})
		}
	}
	out.tcp.Mongo, out.tcp.Discovered = b.protocol == mesh.Mongo, !p.in.class.inline
	p.in.applyPolicy(&out, p.targets[first.Host].rule, first.Subset, first.Port)
	return out
}

// l4Rules indexes the VirtualServices with TCP or TLS routes by host.
type l4Rules struct {
	list  []*snapshot.VirtualService
	exact map[mesh.Hostname][]int // indexes in list, in order
	wild  []int                   // indexes of those with a wildcard host
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

// precedenceOf returns the rank of a VirtualService among those of its host: 0 for routes of the
// Gateway API that apply to the caller's namespace alone, 1 for their other routes, 2 for
// VirtualServices of users.
func precedenceOf(vs *snapshot.VirtualService) int {
	switch x := vs.Config.Extension; {
	case x == nil || !x.Precedes:
		return 2
	case vs.IsPrivate():
		return 0
	default:
		return 1
	}
}

// rulesFor returns the VirtualServices that match a host, which may be a wildcard, by precedence: by
// precedenceOf, then in the order of the list.
func (r l4Rules) rulesFor(host mesh.Hostname) []*snapshot.VirtualService {
	var places []int
	switch {
	case len(r.list) == 0:
		return nil
	case host.IsWildcard():
		for i, vs := range r.list {
			if matchesHost(vs, host) {
				places = append(places, i)
			}
		}
	default:
		places = slices.Clone(r.exact[host])
		for _, i := range r.wild {
			if matchesHost(r.list[i], host) {
				places = append(places, i)
			}
		}
		slices.Sort(places)
	}
	out := make([]*snapshot.VirtualService, 0, len(places))
	for _, i := range slices.Compact(places) {
		out = append(out, r.list[i])
	}
	slices.SortStableFunc(out, func(a, b *snapshot.VirtualService) int { return cmp.Compare(precedenceOf(a), precedenceOf(b)) })
	return out
}

func matchesHost(vs *snapshot.VirtualService, host mesh.Hostname) bool {
	return slices.ContainsFunc(vs.Hosts, host.Matches)
}
