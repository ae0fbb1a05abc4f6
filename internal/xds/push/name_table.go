package push

import (
	"hash/maphash"
	"slices"
	"strings"
)

// nameTable interns lists of names while they are in use. It saves memory because ten thousand
// similar proxies subscribe to the same thousand clusters, each in its own order.
type nameTable struct {
	*weakTable[fingerprint, nameList]
	seed maphash.Seed
}

// fingerprint identifies a set of names without sorting it, by the number of names and the sum of
// their hashes. The seed is random, so clients cannot choose names that collide.
type fingerprint struct {
	names int
	sum   uint64
}

type nameList struct{ names []string }

// NameSum is the fingerprint of a list of names that is being read. The zero value is not usable; see
// Pusher.NewNameSum.
type NameSum struct {
	seed  maphash.Seed
	print fingerprint
}

// Add adds a name.
func (s *NameSum) Add(name []byte) {
	s.print.names++
	s.print.sum += maphash.Bytes(s.seed, name)
}

// Len returns the number of added names.
func (s *NameSum) Len() int { return s.print.names }

// newNameTable returns an empty table.
func newNameTable() *nameTable {
	return &nameTable{weakTable: newWeakTable[fingerprint, nameList](), seed: maphash.MakeSeed()}
}

// internNames returns the names sorted, without duplicates and empty names, in a list that all
// equal subscriptions share and that must not be changed. names may be in any order and is not
// changed. The caller must keep the second result reachable while it uses the list, because the
// table has only weak pointers. Both results are nil for no names.
func (t *nameTable) internNames(names []string) ([]string, any) {
	if len(names) == 0 {
		return nil, nil
	}
	f := fingerprint{names: len(names)}
	for _, n := range names {
		f.sum += maphash.String(t.seed, n)
	}
	l := t.findOrAdd(f, func() *nameList { return newNameList(names) })
	return l.names, l
}

// newNameList returns a list of the names as internNames does, with a copy of each.
func newNameList(names []string) *nameList {
	l := &nameList{names: slices.Clone(names)}
	slices.Sort(l.names)
	l.names = slices.DeleteFunc(slices.Compact(l.names), func(n string) bool { return n == "" })
	for i, n := range l.names {
		l.names[i] = strings.Clone(n) // releases the rest of the request's bytes
	}
	return l
}

// findNames returns the list of the names that were added to s, and a value that keeps it reachable,
// or nil for both if the table does not have it. The list must not be changed.
func (t *nameTable) findNames(s NameSum) ([]string, any) {
	if l := t.find(s.print); l != nil {
		return l.names, l
	}
	return nil, nil
}
