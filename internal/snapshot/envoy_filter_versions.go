package snapshot

import (
	"cmp"
	"slices"
)

// PatchesOfNoVersion returns the patches of EnvoyFilters whose match.proxy.proxyVersion matches
// none of the versions, sorted by object and index. Patches with an invalid regular expression are
// excluded; validation reports them.
func (s *Snapshot) PatchesOfNoVersion(versions []string) []EnvoyPatch {
	if s.envoyFilters == nil {
		return nil
	}
	var list []EnvoyPatch
	seen := map[*filterRow]bool{}
	add := func(rows []*filterRow) {
		for _, r := range rows {
			if seen[r] {
				continue
			}
			seen[r] = true
			for i := range r.patches {
				if re := r.patches[i].version; re != nil && !slices.ContainsFunc(versions, re.MatchString) {
					list = append(list, EnvoyPatch{Filter: r.object, Index: i})
				}
			}
		}
	}
	add(s.envoyFilters.root)
	for _, rows := range s.envoyFilters.byNamespace {
		add(rows)
	}
	slices.SortFunc(list, func(a, b EnvoyPatch) int {
		return cmp.Or(a.Filter.Key.Compare(b.Filter.Key), cmp.Compare(a.Index, b.Index))
	})
	return list
}
