package listener

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// inherited gives the chains that have to be there twice. Envoy picks the narrowest range first and then looks only at
// chains of that range; so what holds for all addresses, or for a wider range, must be said again for each range inside,
// as far as that does not say otherwise. One that takes a server name of the range goes before a wider range's for it.
func inherited(chains []Chain) []Chain {
	ranges := rangesOf(chains)
	if len(ranges) == 0 {
		return nil
	}
	everywhere := takers(chains, "")
	heirs := map[int]map[string][]string{} // chain -> server name -> the ranges that it is to be repeated for
	for i, r := range ranges {
		have := maps.Clone(r.names)
		inherit := func(names map[string][]int) {
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if covered(r.names, name) || covered(have, name) {
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
		out = append(out, repeated(chains[c], heirs[c])...)
	}
	return out
}

// rangeOf is a destination range of a listener and who takes which server name there: the places of chains, by name.
type rangeOf struct {
	prefix netip.Prefix
	names  map[string][]int
}

// rangesOf gives all ranges of the chains, the narrowest first.
func rangesOf(chains []Chain) []rangeOf {
	seen := map[string]bool{}
	var list []rangeOf
	for _, c := range chains {
		for _, p := range c.Match.Prefixes {
			if !seen[p] {
				seen[p] = true
				list = append(list, rangeOf{netip.MustParsePrefix(p), takers(chains, p)})
			}
		}
	}
	slices.SortFunc(list, func(a, b rangeOf) int {
		return cmp.Or(b.prefix.Bits()-a.prefix.Bits(), a.prefix.Addr().Compare(b.prefix.Addr()))
	})
	return list
}

// takers gives the chains of a range ("": of none) by server name, "" for those that take all.
func takers(chains []Chain, prefix string) map[string][]int {
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

// covered says whether somebody takes all connections with a server name already.
func covered(names map[string][]int, name string) bool {
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

// repeated gives copies of a chain: one for all server names that are to be repeated for the same ranges.
func repeated(c Chain, heirs map[string][]string) []Chain {
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
