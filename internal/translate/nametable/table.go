package nametable

import (
	"cmp"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/cespare/xxhash/v2"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// table is the name table of one or more Views. It is immutable, and cached as long as its resource
// is in use.
type table struct {
	lines    []*lines // sorted by host
	resource *resource.Resource
}

// tables caches the tables that are in use by weak pointers: by their lines, so that Views with
// equal lines share a table, and by scope, because the next table of a scope has most lines in
// common with the last.
type tables struct {
	mu      sync.Mutex
	byLines map[uint64]weak.Pointer[table]
	byScope map[view.Key]weak.Pointer[table]
}

// lastLines returns the lines of the last table of a scope, or nil if it is no longer in use.
func (t *tables) lastLines(scope view.Key) []*lines {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byScope[scope].Value(); known != nil {
		return known.lines
	}
	return nil
}

// tableFor returns the encoded table of the lines list. It is the cached table with the same lines,
// or a new table that is then cached. The table also becomes the last of scope. Concurrent calls
// wait, because they are likely to need the same table.
func (t *tables) tableFor(scope view.Key, list []*lines) *resource.Resource {
	sum := sumOf(list)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byLines == nil {
		t.byLines, t.byScope = map[uint64]weak.Pointer[table]{}, map[view.Key]weak.Pointer[table]{}
	}
	made := t.byLines[sum].Value()
	if made == nil || !slices.Equal(made.lines, list) {
		made = newTable(list)
		t.byLines[sum] = weak.Make(made)
		runtime.AddCleanup(made, t.evict, sum)
	}
	t.byScope[scope] = weak.Make(made)
	return made.resource
}

// evict deletes the entry for the lines with the hash sum, and the entries of all scopes, if their
// tables have been collected.
func (t *tables) evict(sum uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byLines[sum].Value() == nil {
		delete(t.byLines, sum)
	}
	for scope, known := range t.byScope {
		if known.Value() == nil {
			delete(t.byScope, scope)
		}
	}
}

// sumOf returns the hash of the hashes of lines, in their order.
func sumOf(list []*lines) uint64 {
	b := make([]byte, 0, 8*len(list))
	for _, l := range list {
		b = binary.LittleEndian.AppendUint64(b, l.hash)
	}
	return xxhash.Sum64(b)
}

// newTable returns the table of the lines of services, which must be sorted by host. The lines of
// pods are inserted in order; of several pods with one host, the first is used. If a pod and a
// service have the same host, the pod takes precedence, as hosts of the platform do in general.
func newTable(list []*lines) *table {
	size := 0
	var pods []pod
	for _, l := range list {
		size += len(l.own)
		for _, p := range l.pods {
			size += len(p.line)
			pods = append(pods, p)
		}
	}
	slices.SortStableFunc(pods, func(a, b pod) int { return cmp.Compare(a.host, b.host) })
	pods = slices.CompactFunc(pods, func(a, b pod) bool { return a.host == b.host })
	body := make([]byte, 0, size)
	for _, l := range list {
		host := l.in.service.Host
		for len(pods) > 0 && pods[0].host < host {
			body, pods = append(body, pods[0].line...), pods[1:]
		}
		if len(pods) == 0 || pods[0].host != host {
			body = append(body, l.own...)
		}
	}
	for _, p := range pods {
		body = append(body, p.line...)
	}
	t := &table{lines: list}
	t.resource = resource.FromBytes(Name, api.NameTableType, body)
	t.resource.Parts = t
	return t
}
