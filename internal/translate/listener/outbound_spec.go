package listener

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// toSpec returns the finished listener, which shares d.chains and sorts them. ok is false if no
// service receives connections there: it has no HTTP, no owner and no chains. The default chain
// forwards to the owner (d.tcp), or handles HTTP if all connections do. Otherwise it closes
// connections if the listener is bound, and forwards them to unknown, the cluster of unknown
// destinations, if it is not. Chains are named after their matches and sorted by name, and
// inspectors are set as the matches require.
func (d *draft) toSpec(unknown string) (s Spec, ok bool) {
	if d.http == nil && d.tcp == nil && len(d.chains) == 0 {
		return Spec{}, false
	}
	n := d.name
	s = Spec{
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
	return s, true
}

// chainName returns the suffix of a chain's name: its first range, its first server name, and
// "http" or its transport, each after "_". It is "" if the match has none of these or only
// plaintext HTTP. No other chain of the listener has the same suffix. It changes only with the
// match: Envoy drains a chain that gets another name.
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

// sortedKeys returns keys sorted and without duplicates. It modifies keys.
func sortedKeys(keys []config.Key) []config.Key {
	slices.SortFunc(keys, config.Key.Compare)
	return slices.Compact(keys)
}

// inherited returns the additional chains that Envoy requires, copies of chains. Envoy selects the
// narrowest range first and then considers only chains of that range. So chains for all addresses,
// or for a wider range, are repeated for each range inside, unless that range has its own chain. A
// chain for a server name in the range takes precedence over the chain of a wider range. It returns
// nil if no chain has a range.
func inherited(chains []Chain) []Chain {
	ranges := rangesOf(chains)
	if len(ranges) == 0 {
		return nil
	}
	everywhere := chainsByServerName(chains, "")
	// chain -> server name -> the ranges for which it is repeated
	heirs := map[int]map[string][]string{}
	for i, r := range ranges {
		have := maps.Clone(r.names)
		inherit := func(names map[string][]int) {
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if isCovered(r.names, name) || isCovered(have, name) {
					continue
				}
				for _, c := range names[name] {
					if heirs[c] == nil {
						heirs[c] = map[string][]string{}
					}
					heirs[c][name] = append(heirs[c][name], r.prefix.String())
				}
			}
			maps.Copy(have, names)
		}
		for _, wider := range ranges[i+1:] {
			if wider.prefix.Bits() < r.prefix.Bits() && wider.prefix.Contains(r.prefix.Addr()) {
				inherit(wider.names)
			}
		}
		inherit(everywhere)
	}
	var out []Chain
	for _, c := range slices.Sorted(maps.Keys(heirs)) {
		out = append(out, repeatChain(chains[c], heirs[c])...)
	}
	return out
}

// rangeChains is a destination range of a listener, with the indexes of its chains by server name.
type rangeChains struct {
	prefix netip.Prefix
	names  map[string][]int
}

// rangesOf returns all destination ranges of the chains, without duplicates, the narrowest first,
// each with its chains by server name (chainsByServerName). It panics if a range is invalid.
func rangesOf(chains []Chain) []rangeChains {
	seen := map[string]bool{}
	var list []rangeChains
	for _, c := range chains {
		for _, p := range c.Match.Prefixes {
			if !seen[p] {
				seen[p] = true
				list = append(list, rangeChains{netip.MustParsePrefix(p), chainsByServerName(chains, p)})
			}
		}
	}
	slices.SortFunc(list, func(a, b rangeChains) int {
		return cmp.Or(b.prefix.Bits()-a.prefix.Bits(), a.prefix.Addr().Compare(b.prefix.Addr()))
	})
	return list
}

// chainsByServerName returns the indexes of the chains of a destination range by server name.
// Chains that match all names have the key "". prefix is "" for the chains without a range.
func chainsByServerName(chains []Chain, prefix string) map[string][]int {
	names := map[string][]int{}
	for i, c := range chains {
		if slices.Contains(orAny(c.Match.Prefixes), prefix) {
			for _, name := range orAny(c.Match.SNI) {
				names[name] = append(names[name], i)
			}
		}
	}
	return names
}

// isCovered reports whether a chain in names matches all connections with a server name: by the
// same name, a covering wildcard, or "" (all names).
func isCovered(names map[string][]int, name string) bool {
	if names[""] != nil || names[name] != nil {
		return true
	}
	for rest := strings.TrimPrefix(name, "*"); rest != ""; {
		dot := strings.IndexByte(rest[1:], '.')
		if names["*"+rest] != nil && rest[0] == '.' {
			return true
		}
		if dot < 0 {
			return false
		}
		rest = rest[1+dot:]
	}
	return false
}

// repeatChain returns copies of c for the ranges in heirs, by server name; "" means any name.
// Server names with the same ranges share a copy. The copies have no names.
func repeatChain(c Chain, heirs map[string][]string) []Chain {
	byRanges := map[string]*Chain{}
	for _, name := range slices.Sorted(maps.Keys(heirs)) {
		key := strings.Join(heirs[name], ",")
		again := byRanges[key]
		if again == nil {
			again = &Chain{Match: c.Match, TLS: c.TLS, HTTP: c.HTTP, TCP: c.TCP}
			again.Match.Prefixes, again.Match.SNI = slices.Sorted(slices.Values(heirs[name])), nil
			byRanges[key] = again
		}
		if name != "" {
			again.Match.SNI = append(again.Match.SNI, name)
		}
	}
	var out []Chain
	for _, key := range slices.Sorted(maps.Keys(byRanges)) {
		out = append(out, *byRanges[key])
	}
	return out
}
