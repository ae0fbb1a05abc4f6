package push

import (
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"
)

// nameTable interns lists of names while they are in use. It saves memory because ten thousand
// similar proxies subscribe to the same thousand clusters, each in its own order.
type nameTable struct {
	seed  maphash.Seed
	mu    sync.Mutex
	lists map[fingerprint]weak.Pointer[nameList]
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
	return &nameTable{seed: maphash.MakeSeed(), lists: map[fingerprint]weak.Pointer[nameList]{}}
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lists[f].Value(); l != nil {
		return l.names, l
	}
	l := &nameList{names: slices.Clone(names)}
	slices.Sort(l.names)
	l.names = slices.DeleteFunc(slices.Compact(l.names), func(n string) bool { return n == "" })
	for i, n := range l.names {
		l.names[i] = strings.Clone(n) // releases the rest of the request's bytes
	}
	t.lists[f] = weak.Make(l)
	runtime.AddCleanup(l, t.remove, f)
	return l.names, l
}

// find returns the list of the names that were added to s, and a value that keeps it reachable, or
// nil for both if the table does not have it. The list must not be changed.
func (t *nameTable) find(s NameSum) ([]string, any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lists[s.print].Value(); l != nil {
		return l.names, l
	}
	return nil, nil
}

// remove deletes the entry of a list that was garbage collected. It does nothing if the entry has a
// new list.
func (t *nameTable) remove(f fingerprint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lists[f].Value() == nil {
		delete(t.lists, f)
	}
}
