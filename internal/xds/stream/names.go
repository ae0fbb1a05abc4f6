package stream

import "slices"

// Lists of names are sorted, without duplicates, and never changed once made: they are shared.

// sorted makes a list of names out of what a client sent: in any order, perhaps with duplicates and empty names.
func sorted(names []string) []string {
	list := slices.Clone(names)
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) > 0 && list[0] == "" {
		list = list[1:]
	}
	return list
}

// has says whether the list holds the name.
func has(list []string, name string) bool {
	_, found := slices.BinarySearch(list, name)
	return found
}

// union gives the names of both lists; one of them itself if that holds all.
func union(a, b []string) []string {
	if len(a) < len(b) {
		a, b = b, a
	}
	extra := without(b, a)
	if len(extra) == 0 {
		return a
	}
	return merged(a, extra)
}

// merged merges two disjoint lists.
func merged(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if a[0] < b[0] {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// without gives the names of a that are not in b; a itself if none is.
func without(a, b []string) []string {
	if len(b) == 0 || len(a) == 0 {
		return a
	}
	var out []string
	kept := true
	for i, n := range a {
		switch in := has(b, n); {
		case in && kept:
			kept = false
			out = append(make([]string, 0, len(a)-1), a[:i]...)
		case !in && !kept:
			out = append(out, n)
		}
	}
	if kept {
		return a
	}
	return out
}
