package listener

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// draft is an outbound listener under construction.
type draft struct {
	listenAddress
	name string
	more []string
	// bind is set if the proxy listens on the address itself. Connections then have no original
	// destination to fall back to.
	bind bool
	// locked is set for the listeners of a Sidecar with a port: the listener without a port adds
	// nothing to them.
	locked bool
	// http receives connections with HTTP, by RDS; nil if the listener has none.
	http *HTTP
	// httpOnly is set if all connections carry HTTP, so that no inspector is needed.
	httpOnly bool
	chains   []Chain // by server name or destination range
	claims   map[matchKey]candidate
	// tcp receives connections that match no chain; tcpBy is its owner, and tls is set if it
	// carries TLS.
	tcp   *TCP
	tcpBy candidate
	tls   bool
	from  []config.Key
}

// matchKey is one destination range and server name; "" means all. No two services have the same
// one, because Envoy refuses a listener with two chains for the same connections.
type matchKey struct{ prefix, sni string }

// candidate is a service that requests connections, by itself or by a VirtualService for it.
type candidate struct {
	service *mesh.Service
	rule    config.Key
}

// conflictsWith reports whether two candidates want the same connections for different
// destinations. They do not if one VirtualService routes both services, or if a service keeps the
// connections that its own VirtualService does not match.
func (c candidate) conflictsWith(o candidate) bool {
	none := config.Key{}
	if c.service == o.service {
		return c.rule != none && o.rule != none && c.rule != o.rule
	}
	return c.rule == none || c.rule != o.rule
}

// claimMatches assigns the free ranges and names of a match to by, and returns them. A server name
// is free only if it is so in all ranges of the match. ok is false if none is free. lost is the
// owner of the first part that is not free, or nil.
func (d *draft) claimMatches(m Match, by candidate) (got Match, ok bool, lost *candidate) {
	taken := func(prefix, sni string) bool {
		owner, there := d.claims[matchKey{prefix, sni}]
		if there && lost == nil {
			lost = &owner
		}
		return there
	}
	if len(m.SNI) > 0 {
		m.SNI = withoutTaken(m.SNI, func(sni string) bool {
			return slices.ContainsFunc(orAny(m.Prefixes), func(p string) bool { return taken(p, sni) })
		})
		ok = len(m.SNI) > 0
	} else {
		m.Prefixes = withoutTaken(m.Prefixes, func(p string) bool { return taken(p, "") })
		ok = len(m.Prefixes) > 0
	}
	if !ok {
		return Match{}, false, lost
	}
	if d.claims == nil {
		d.claims = map[matchKey]candidate{}
	}
	for _, p := range orAny(m.Prefixes) {
		for _, sni := range orAny(m.SNI) {
			d.claims[matchKey{p, sni}] = by
		}
	}
	return m, true, lost
}

// withoutTaken returns the values for which taken is false, sorted, without duplicates.
func withoutTaken(values []string, taken func(string) bool) []string {
	list := slices.DeleteFunc(slices.Clone(values), taken)
	slices.Sort(list)
	return slices.Compact(list)
}

// orAny returns values, or "" for any if values is empty.
func orAny(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

// isEmpty reports whether no service receives connections.
func (d *draft) isEmpty() bool { return d.http == nil && d.tcp == nil && len(d.chains) == 0 }

// toSpec returns the finished listener. unknown is the cluster of connections to unknown
// destinations, which the default chain forwards there. The default is TCP or HTTP if the draft
// handles all connections so, and a black hole if the listener is bound.
func (d *draft) toSpec(unknown string) Spec {
	n := d.name
	s := Spec{
		Name:    n,
		Address: d.address,
		More:    d.more,
		Port:    d.port,
		Bind:    d.bind,
		From:    sortedKeys(d.from),
		Chains:  d.chains,
	}
	switch {
	case d.tcp != nil:
		s.Default = Chain{Name: n + "_tcp", TCP: d.tcp}
	case d.http != nil && d.httpOnly:
		s.Default = Chain{Name: n, HTTP: d.http}
	case d.bind:
		s.Default = Chain{Name: "BlackHoleFilterChain", TCP: forwardTo(mesh.BlackHoleCluster)}
	default:
		s.Default = Chain{Name: "PassthroughFilterChain", TCP: forwardTo(unknown)}
	}
	if d.http != nil && s.Default.HTTP == nil {
		s.Chains = append(s.Chains, Chain{Match: Match{HTTP: true, Transport: rawBuffer}, HTTP: d.http})
	}
	s.Chains = append(s.Chains, inherited(s.Chains)...)
	for i := range s.Chains {
		c := &s.Chains[i]
		c.Name = n + chainName(c.Match)
		s.TLSInspector = s.TLSInspector || len(c.Match.SNI) > 0
		s.HTTPInspector = s.HTTPInspector || c.Match.HTTP
	}
	slices.SortFunc(s.Chains, func(a, b Chain) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// chainName names a chain by the first value that it matches, which no other chain of the listener
// has. The name changes only with the match: Envoy drains a chain that gets another name.
func chainName(m Match) string {
	var n string
	for _, first := range [][]string{m.Prefixes, m.SNI} {
		if len(first) > 0 {
			n += "_" + first[0]
		}
	}
	switch {
	case m.HTTP && n != "":
		return n + "_http"
	case m.Transport != "" && !m.HTTP:
		return n + "_" + m.Transport
	default:
		return n
	}
}

func sortedKeys(keys []config.Key) []config.Key {
	slices.SortFunc(keys, config.Key.Compare)
	return slices.Compact(keys)
}
