package push

import (
	"hash/maphash"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"
)

// union gives the sorted union of sorted lists without duplicates; a itself if it holds all of b.
func union(a, b []string) []string {
	if len(a) == 0 {
		return b
	}
	missing := without(b, a)
	if len(missing) == 0 {
		return a
	}
	out := append(slices.Clone(a), missing...)
	slices.Sort(out)
	return out
}

// without gives the names of the sorted list a that are not in the sorted list b.
func without(a, b []string) []string {
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

// nameTable gives equal lists of names one place in memory, for as long as somebody uses them. Ten thousand alike proxies
// subscribe to the same thousand clusters, each in an order of its own.
type nameTable struct {
	seed  maphash.Seed
	mu    sync.Mutex
	lists map[fingerprint]weak.Pointer[nameList]
}

// fingerprint is what is known of names without putting them in order: how many there are and the sum of their hashes, which
// nobody can foresee.
type fingerprint struct {
	names int
	sum   uint64
}

type nameList struct{ names []string }

func newNameTable() *nameTable {
	return &nameTable{seed: maphash.MakeSeed(), lists: map[fingerprint]weak.Pointer[nameList]{}}
}

// intern gives names, which may come in any order, as a list: sorted, each once, none empty; and what must be held for as long
// as the list is in use.
func (t *nameTable) intern(names []string) ([]string, any) {
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
		l.names[i] = strings.Clone(n) // of a request's bytes nothing else is kept
	}
	t.lists[f] = weak.Make(l)
	runtime.AddCleanup(l, t.forget, f)
	return l.names, l
}

func (t *nameTable) forget(f fingerprint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lists[f].Value() == nil {
		delete(t.lists, f)
	}
}
