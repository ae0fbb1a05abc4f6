package listener

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// draft is an outbound listener in the making.
type draft struct {
	place
	name string
	more []string
	// bind says that the proxy listens there itself; there is no original destination then to fall back to.
	bind bool
	// locked drafts are of a Sidecar's listeners with a port: the listener for everything else adds nothing to them.
	locked bool
	// http takes the connections that carry HTTP, by RDS; nil if the place is not for HTTP.
	http *HTTP
	// httpOnly says that all connections carry HTTP, so that nobody needs to look.
	httpOnly bool
	chains   []Chain // by server name or destination range
	claims   map[claim]claimant
	// tcp takes what no chain does; tcpBy is whose it is, and tls says that it carries TLS.
	tcp   *TCP
	tcpBy claimant
	tls   bool
	from  []config.Key
}

// claim is one destination range and server name; "" stands for all. No two services share one, for if a listener has two
// chains for the same connections Envoy refuses all of it.
type claim struct{ prefix, sni string }

// claimant is who has something: a service, by itself or by a VirtualService for it.
type claimant struct {
	service *mesh.Service
	rule    config.Key
}

// contends says whether two want the same for different ends: not two services that one VirtualService leads to the same
// place, and not a service that has what a VirtualService does not take of its connections.
func (c claimant) contends(o claimant) bool {
	none := config.Key{}
	if c.service == o.service {
		return c.rule != none && o.rule != none && c.rule != o.rule
	}
	return c.rule == none || c.rule != o.rule
}

// claim takes what is free of a match's ranges and names, and says whether there is any. lost is one of those who have
// the rest, nil if there is no rest.
func (d *draft) claim(m Match, by claimant) (got Match, ok bool, lost *claimant) {
	taken := func(prefix, sni string) bool {
		owner, there := d.claims[claim{prefix, sni}]
		if there && lost == nil {
			lost = &owner
		}
		return there
	}
	if len(m.SNI) > 0 {
		m.SNI = free(m.SNI, func(sni string) bool {
			return slices.ContainsFunc(orAny(m.Prefixes), func(p string) bool { return taken(p, sni) })
		})
		ok = len(m.SNI) > 0
	} else {
		m.Prefixes = free(m.Prefixes, func(p string) bool { return taken(p, "") })
		ok = len(m.Prefixes) > 0
	}
	if !ok {
		return Match{}, false, lost
	}
	if d.claims == nil {
		d.claims = map[claim]claimant{}
	}
	for _, p := range orAny(m.Prefixes) {
		for _, sni := range orAny(m.SNI) {
			d.claims[claim{p, sni}] = by
		}
	}
	return m, true, lost
}

// free gives the values that are not taken, sorted, each once.
func free(values []string, taken func(string) bool) []string {
	list := slices.DeleteFunc(slices.Clone(values), taken)
	slices.Sort(list)
	return slices.Compact(list)
}

// orAny gives the values, or the one that stands for all.
func orAny(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

// empty says that nobody got anything.
func (d *draft) empty() bool { return d.http == nil && d.tcp == nil && len(d.chains) == 0 }

// spec finishes the draft. unknown is the cluster of connections that are nobody's.
func (d *draft) spec(unknown string) Spec {
	n := d.name
	s := Spec{Name: n, Address: d.address, More: d.more, Port: d.port, Bind: d.bind, From: sortedKeys(d.from), Chains: d.chains}
	switch {
	case d.tcp != nil:
		s.Default = Chain{Name: n + "_tcp", TCP: d.tcp}
	case d.http != nil && d.httpOnly:
		s.Default = Chain{Name: n, HTTP: d.http}
	case d.bind:
		s.Default = Chain{Name: "BlackHoleFilterChain", TCP: forward(mesh.BlackHoleCluster)}
	default:
		s.Default = Chain{Name: "PassthroughFilterChain", TCP: forward(unknown)}
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

// chainName names a chain by the first thing that it matches. No other chain of the listener has that, and it changes
// only when the match does: a chain with another name is another chain to Envoy, which drains the old one.
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
