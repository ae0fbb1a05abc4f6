package push

import "github.com/meshpilot/meshpilot/internal/xds/stream"

// setTable finds the resources that a proxy reports by the sum of their hashes, among the resources
// that clients are offered now. So the report of a proxy that reconnects needs no memory.
type setTable struct {
	*weakTable[setSum, stream.SetList]
}

// setSum identifies the resources of a type: their number, and the sum of their resource.Hash.
type setSum struct {
	typeURL string
	count   int
	sum     uint64
}

// newSetTable returns an empty table.
func newSetTable() setTable { return setTable{newWeakTable[setSum, stream.SetList]()} }

// addAll adds the resources of each type that it was not called with before. The table does not
// keep them: they are removed when all ResourceSnapshots with the same resources are garbage
// collected. Concurrent calls are not safe.
func (t setTable) addAll(w *stream.ResourceSnapshot) {
	for typeURL, l := range w.SetLists() {
		l.Intern(func() *stream.SetList {
			return t.findOrAdd(setSum{typeURL, l.Len(), l.Sum()}, func() *stream.SetList { return l })
		})
	}
}
