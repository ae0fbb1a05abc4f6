package resource

import "weak"

// Diff is the difference between two sets.
type Diff struct {
	// Updated are resources that are new or have another version, sorted by name.
	Updated []*Resource
	// Removed are the names of deleted resources, sorted.
	Removed []string
}

// Empty reports whether nothing differs.
func (d Diff) Empty() bool { return len(d.Updated) == 0 && len(d.Removed) == 0 }

// Compare returns the difference from old to new, by names and versions, each list sorted by name.
// A nil set is empty. New resources are updates, resources of equal version are not. The result may
// be shared and must not be changed.
func Compare(old, new *Set) Diff {
	switch {
	case old == new:
		return Diff{}
	case old != nil && new != nil && new.origin == weak.Make(old):
		return new.step
	}
	var d Diff
	a, b := unshared(old, new), unshared(new, old)
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			d.Removed = append(d.Removed, a[0].Name)
			a = a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			d.Updated = append(d.Updated, b[0])
			b = b[1:]
		default:
			if a[0] != b[0] && a[0].Version != b[0].Version {
				d.Updated = append(d.Updated, b[0])
			}
			a, b = a[1:], b[1:]
		}
	}
	return d
}

// unshared returns the resources of the chunks of s that other does not have, sorted by name.
func unshared(s, other *Set) []*Resource {
	shared := map[**Resource]bool{} // by the address of the first resource
	for _, c := range other.allChunks() {
		shared[&c[0]] = true
	}
	var list []*Resource
	for _, c := range s.allChunks() {
		if !shared[&c[0]] {
			list = append(list, c...)
		}
	}
	return list
}
