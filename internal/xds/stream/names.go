package stream

import "slices"

// Lists of names are sorted, without duplicates, and never changed once made: they are shared.

// sorted makes a list of names out of what a client sent: in any order, perhaps with duplicates and empty names. What
// came in order is used as it is; anything else is put in order where it is.
func sorted(names []string) []string {
	if ascending(names) {
		return names
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 0 && names[0] == "" {
		names = names[1:]
	}
	return names
}

// ascending says that the names are a list already.
func ascending(names []string) bool {
	last := ""
	for _, n := range names {
		if n <= last {
			return false
		}
		last = n
	}
	return true
}

// has says whether the list holds the name.
func has(list []string, name string) bool {
	_, found := slices.BinarySearch(list, name)
	return found
}

// without gives the names of a that are not in b; a itself if none is, and nil if all are.
func without(a, b []string) []string {
	if len(a) > 0 && len(a) == len(b) && &a[0] == &b[0] {
		return nil
	}
	var out []string
	begin, at := 0, 0 // a[begin:at] stays
	for at < len(a) && len(b) > 0 {
		if b = b[before(b, a[at]):]; len(b) == 0 {
			break
		}
		if n := before(a[at:], b[0]); n > 0 {
			at += n
			continue
		}
		out = append(out, a[begin:at]...)
		at++
		begin, b = at, b[1:]
	}
	if begin == 0 {
		return a
	}
	return append(out, a[begin:]...)
}

// union gives the names of both lists; one of them itself if that holds all.
func union(a, b []string) []string {
	if len(a) < len(b) {
		a, b = b, a
	}
	if same(a, b) {
		return a
	}
	extra := without(b, a)
	if len(extra) == 0 {
		return a
	}
	out := make([]string, 0, len(a)+len(extra))
	for _, n := range extra {
		i := before(a, n)
		out = append(append(out, a[:i]...), n)
		a = a[i:]
	}
	return append(out, a...)
}

// before counts the names of the list that come before n. It costs little if they are few.
func before(list []string, n string) int {
	if len(list) == 0 || list[0] >= n {
		return 0
	}
	end := 2
	for end <= len(list) && list[end-1] < n {
		end *= 2
	}
	begin := end / 2
	i, _ := slices.BinarySearch(list[begin:min(end, len(list))], n)
	return begin + i
}

// same says that two lists are equal.
func same(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.Equal(a, b))
}
