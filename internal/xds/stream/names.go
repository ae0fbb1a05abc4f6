package stream

import "slices"

// Lists of names are sorted and without duplicates. They are immutable, because they are shared:
// results may be an argument, so a caller that appends must clip them.

// sortedNames returns names sorted, without duplicates and empty names, as all functions of this
// file expect. A list that already is so is returned as it is; any other is sorted in place.
func sortedNames(names []string) []string {
	if isSorted(names) {
		return names
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 0 && names[0] == "" {
		names = names[1:]
	}
	return names
}

// isSorted reports whether the names are sorted, without duplicates and without empty names.
func isSorted(names []string) bool {
	last := ""
	for _, n := range names {
		if n <= last {
			return false
		}
		last = n
	}
	return true
}

// containsName reports whether a sorted list contains the name.
func containsName(list []string, name string) bool {
	_, found := slices.BinarySearch(list, name)
	return found
}

// SubtractNames returns the names of the sorted list a that are not in the sorted list b. It
// returns a itself if b removes none, and nil if b removes all.
func SubtractNames(a, b []string) []string {
	if len(a) > 0 && shareMemory(a, b) {
		return nil
	}
	var out []string
	begin, at := 0, 0 // a[begin:at] is kept
	for at < len(a) && len(b) > 0 {
		if b = b[countBefore(b, a[at]):]; len(b) == 0 {
			break
		}
		if n := countBefore(a[at:], b[0]); n > 0 {
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

// IntersectNames returns the names that are in both sorted lists, or nil if there are none.
func IntersectNames(a, b []string) []string {
	if len(b) == 0 {
		return nil
	}
	return SubtractNames(a, SubtractNames(a, b))
}

// MergeNames returns the names that are in either sorted list, sorted. It returns one of the lists
// itself if that contains all names.
func MergeNames(a, b []string) []string {
	if len(a) < len(b) {
		a, b = b, a
	}
	if EqualNames(a, b) {
		return a
	}
	extra := SubtractNames(b, a)
	if len(extra) == 0 {
		return a
	}
	out := make([]string, 0, len(a)+len(extra))
	for _, n := range extra {
		i := countBefore(a, n)
		out = append(append(out, a[:i]...), n)
		a = a[i:]
	}
	return append(out, a...)
}

// countBefore returns the number of names in the sorted list that sort before n. It searches
// exponentially, so a small result is found quickly.
func countBefore(list []string, n string) int {
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

// EqualNames reports whether two lists are equal. Long lists usually share their memory; then their
// elements are not compared.
func EqualNames(a, b []string) bool { return shareMemory(a, b) || slices.Equal(a, b) }

// shareMemory reports whether two lists have the same elements at the same address, or none.
func shareMemory(a, b []string) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
