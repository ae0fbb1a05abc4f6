package push

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/cespare/xxhash/v2"
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
// subscribe to the same thousand clusters.
type nameTable struct {
	mu    sync.Mutex
	lists map[uint64]weak.Pointer[nameList]
}

type nameList struct{ names []string }

// intern gives an equal list, and what must be held for as long as it is to be shared.
func (t *nameTable) intern(names []string) ([]string, any) {
	if len(names) == 0 {
		return nil, nil
	}
	h := xxhash.New()
	for _, n := range names {
		_, _ = h.WriteString(n)
		_, _ = h.WriteString("\x00")
	}
	sum := h.Sum64()
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lists[sum].Value(); l != nil {
		if slices.Equal(l.names, names) {
			return l.names, l
		}
		return names, nil // another list has the place
	}
	l := &nameList{names: slices.Clone(names)}
	for i, n := range l.names {
		l.names[i] = strings.Clone(n) // of a request's bytes nothing else is kept
	}
	if t.lists == nil {
		t.lists = map[uint64]weak.Pointer[nameList]{}
	}
	t.lists[sum] = weak.Make(l)
	runtime.AddCleanup(l, t.forget, sum)
	return l.names, l
}

func (t *nameTable) forget(sum uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lists[sum].Value() == nil {
		delete(t.lists, sum)
	}
}
