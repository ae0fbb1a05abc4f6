package push

import (
	"runtime"
	"sync"
	"weak"

	"github.com/meshpilot/meshpilot/internal/xds/stream"
)

// setTable finds the resources that a proxy reports by the sum of their hashes, among the resources
// that clients are offered now. So the report of a proxy that reconnects needs no memory.
type setTable struct {
	mu    sync.Mutex
	lists map[setSum]weak.Pointer[stream.SetList]
}

// setSum identifies the resources of a type: their number, and the sum of their resource.Hash.
type setSum struct {
	typeURL string
	count   int
	sum     uint64
}

// newSetTable returns an empty table.
func newSetTable() *setTable {
	return &setTable{lists: map[setSum]weak.Pointer[stream.SetList]{}}
}

// addAll adds the resources of each type. The table does not keep them: they are removed when w and
// all later ResourceSnapshots with the same resources are garbage collected.
func (t *setTable) addAll(w *stream.ResourceSnapshot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for typeURL, l := range w.SetLists() {
		key := setSum{typeURL, l.Len(), l.Sum()}
		if t.lists[key].Value() == nil {
			t.lists[key] = weak.Make(l)
			runtime.AddCleanup(l, t.remove, key)
		}
	}
}

// find returns the resources with a sum, or nil if the table has none.
func (t *setTable) find(key setSum) *stream.SetList {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lists[key].Value()
}

// remove deletes an entry that was garbage collected. It does nothing if there is a new one.
func (t *setTable) remove(key setSum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lists[key].Value() == nil {
		delete(t.lists, key)
	}
}
