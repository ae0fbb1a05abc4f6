package rollout

import "slices"

// union returns the sorted union of two sorted lists without duplicates. It returns a itself if a
// contains all of b, and b itself if a is empty.
func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	missing := without(b, a)
	if len(missing) == 0 {
		return slices.Clip(a) // the caller may append
	}
	out := append(slices.Clone(a), missing...)
	slices.Sort(out)
	return out
}

// without returns the names of the sorted list a that are not in the sorted list b, or nil if there
// are none.
func without(a, b []string) []string {
	switch {
	case len(b) == 0:
		return slices.Clip(a) // the caller may append
	case len(a) == len(b) && &a[0] == &b[0]:
		return nil // classes and their clients share long lists
	}
	var out []string
	for _, n := range a {
		for len(b) > 0 && b[0] < n {
			b = b[1:]
		}
		if len(b) == 0 || b[0] != n {
			out = append(out, n)
		}
	}
	return out
}

// intersection returns the names that are in both sorted lists, nil if there are none.
func intersection(a, b []string) []string { return without(a, without(a, b)) }
