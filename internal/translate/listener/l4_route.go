package listener

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// l4Rules indexes the VirtualServices with TCP or TLS routes by host.
type l4Rules struct {
	list  []*snapshot.VirtualService
	exact map[mesh.Hostname][]int // indexes in list, in order
	wild  []int                   // indexes of those with a wildcard host
}

// newL4Rules returns an index of the VirtualServices of list by their hosts. The index holds
// positions in list.
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

// rulesFor returns the VirtualServices that match a host, which may be a wildcard: by precedenceOf,
// then in the order of the list. The result is empty, perhaps nil, if there are none.
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
	slices.SortStableFunc(
		out,
		func(a, b *snapshot.VirtualService) int { return cmp.Compare(precedenceOf(a), precedenceOf(b)) },
	)
	return out
}

// precedenceOf returns the rank of a VirtualService among all VirtualServices of its host: 0 for
// routes of the Gateway API that apply to the caller's namespace alone, 1 for their other routes, 2
// for VirtualServices of users.
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

// matchesHost reports whether a VirtualService applies to a host; either may be a wildcard.
func matchesHost(vs *snapshot.VirtualService, host mesh.Hostname) bool {
	return slices.ContainsFunc(vs.Hosts, host.Matches)
}

// router determines the destinations of connections: by the TCP and TLS routes of VirtualServices,
// or the service itself.
type router struct {
	in *outboundInput
	// v is used only to resolve names of services; everything else is in the input.
	v       *view.View
	family  family
	targets map[mesh.Hostname]target
	// rules are the rules of the current egress listener; gateways have none.
	rules l4Rules
}

// newRouter returns a router for the destinations in in.targets, without rules.
func newRouter(v *view.View, in *outboundInput) router {
	r := router{in: in, v: v, family: familyOf(v), targets: make(map[mesh.Hostname]target, len(in.targets))}
	for _, t := range in.targets {
		r.targets[t.host] = t
	}
	return r
}

// routed is the destination of some connections.
type routed struct {
	match Match
	tcp   *TCP
	// rule is the VirtualService that routes them, or the zero Key. from are all objects that tcp
	// derives from, except the service.
	rule config.Key
	from []config.Key
}

// tcpRoutes is the destinations of raw connections: by destination range, then for the rest.
type tcpRoutes struct {
	ranged []routed
	rest   routed
}

// tcpRoutes returns the destinations of the raw connections of a service port: ranged by the TCP
// routes for subnets before the first that matches all, rest by that one or else to the service. ip
// is the address of the listener if it is a single one, which subnets are compared with, or
// invalid.
func (r *router) tcpRoutes(b servicePort, ip netip.Addr) tcpRoutes {
	var out tcpRoutes
	for _, vs := range r.rules.rulesFor(b.service.Host) {
		for _, route := range vs.Spec.GetTcp() {
			all, subnets := r.tcpMatch(route.GetMatch(), b, ip)
			switch {
			case all:
				out.rest = r.weighted(vs, route.GetRoute(), b)
				return out
			case len(subnets) > 0:
				c := r.weighted(vs, route.GetRoute(), b)
				c.match = Match{Prefixes: subnets}
				out.ranged = append(out.ranged, c)
			}
		}
	}
	out.rest = r.toService(b)
	return out
}

// tcpMatch reports as all whether the matches of a TCP route match all connections to b; if ip is
// valid, all connections to that address. If not, subnets are the destination subnets that they
// match, sorted, and nil with a valid ip. No matches match everything.
func (r *router) tcpMatch(
	matches []*networking.L4MatchAttributes,
	b servicePort,
	ip netip.Addr,
) (all bool, subnets []string) {
	for _, m := range matches {
		if !r.applies(m, b) {
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

// tlsRoutes returns the destinations of the TLS connections of a service that VirtualServices
// route, by server name and destination; nil if none does. ip is the address of the listener if it
// is a single one, else invalid; ranges are the service's. Where routes of the Gateway API have a
// rule for the port, VirtualServices of lower precedence are not used. faults are Problems of
// server names that Envoy cannot match.
func (r *router) tlsRoutes(
	b servicePort,
	ip netip.Addr,
	ranges []string,
) (out []routed, faults []config.Problem) {
	rank := 0
	for _, vs := range r.rules.rulesFor(b.service.Host) {
		if len(out) > 0 && precedenceOf(vs) != rank {
			break
		}
		rank = precedenceOf(vs)
		for i, route := range vs.Spec.GetTls() {
			for j, m := range route.GetMatch() {
				if !r.applies(m, b) {
					continue
				}
				to, ok, invalid := tlsMatch(m, ip, ranges)
				for _, text := range invalid {
					faults = append(faults, warning(vs.Config.Key, sniHostsField(i, j), text))
				}
				if ok {
					c := r.weighted(vs, route.GetRoute(), b)
					c.match = to
					out = append(out, c)
				}
			}
		}
	}
	return out, faults
}

// sniHostsField returns the field of the server names of a match of a TLS route.
func sniHostsField(route, match int) string {
	return fmt.Sprintf("spec.tls[%d].match[%d].sniHosts", route, match)
}

// tlsMatch returns the Match of the match m of a TLS route, at ip if that is valid, otherwise in
// its subnets or in ranges. ok is false if it matches nothing there. invalid has a text for each
// server name that Envoy cannot match.
func tlsMatch(m *networking.TLSMatchAttributes, ip netip.Addr, ranges []string) (to Match, ok bool, invalid []string) {
	sni, invalid := serverNames(m.GetSniHosts())
	if len(sni) == 0 && len(invalid) > 0 {
		return Match{}, false, invalid
	}
	if slices.Contains(sni, anyName) {
		sni = nil
	}
	subnets, everywhere := parseSubnets(m.GetDestinationSubnets())
	switch {
	case everywhere:
		return Match{SNI: sni, Prefixes: ranges}, true, invalid
	case ip.IsValid():
		return Match{SNI: sni}, containsIP(ip, subnets), invalid
	default:
		return Match{SNI: sni, Prefixes: subnets}, len(subnets) > 0, invalid
	}
}

// anyName is the server name that matches all connections, including those without one.
const anyName = "*"

// serverNames returns names as Envoy compares them: in lower case, without a final dot, sorted,
// without duplicates. Envoy supports only the wildcard "*" as the first label, for one or more
// labels, or as the whole name. Other names are left out, each with a text in faults.
func serverNames(names []string) (list, faults []string) {
	for _, n := range names {
		n = strings.ToLower(strings.TrimSuffix(n, "."))
		if rest, _ := strings.CutPrefix(n, "*."); n != anyName && strings.Contains(rest, "*") || n == "" {
			faults = append(
				faults,
				fmt.Sprintf("%q: a server name's wildcard must be a whole label at its beginning", n),
			)
			continue
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return slices.Compact(list), faults
}

// l4Match is the common interface of the matches of TCP and TLS routes.
type l4Match interface {
	GetPort() uint32
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
}

// applies reports whether the conditions of a match on port, source and gateways apply to a service
// port and the View's proxies. Conditions that are unset apply to all. If gateways are set, they
// must include "mesh".
func (r *router) applies(m l4Match, b servicePort) bool {
	gateways := m.GetGateways()
	return (m.GetPort() == 0 || m.GetPort() == b.port.Number) &&
		(len(gateways) == 0 || slices.Contains(gateways, snapshot.MeshGateway)) &&
		r.v.SourceMatches(m.GetSourceLabels(), m.GetSourceNamespace())
}

// parseSubnets parses the destination subnets of a match, and ignores invalid ones. everywhere is
// set if subnets is empty or one of them covers all addresses. list is sorted.
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

// containsIP reports whether any of the subnets contains ip. Invalid subnets contain none.
func containsIP(ip netip.Addr, subnets []string) bool {
	return slices.ContainsFunc(subnets, func(s string) bool {
		prefix, ok := parsePrefix(s)
		return ok && prefix.Contains(ip)
	})
}
