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

// table is what one or more Views are sent. It is immutable, and kept for as long as its resource is in use.
type table struct {
	lines    []*lines // sorted by host
	resource *resource.Resource
}

// tables finds tables that are in use: by what they are made of, so that Views that see the same share one, and by the
// scope that they were made for last, because the next table of a scope has most of it in common.
type tables struct {
	mu      sync.Mutex
	byLines map[uint64]weak.Pointer[table]
	byScope map[view.Key]weak.Pointer[table]
}

// last gives the lines of the table that was made for a scope last, if it is in use still.
func (t *tables) last(scope view.Key) []*lines {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.byScope[scope].Value(); known != nil {
		return known.lines
	}
	return nil
}

// of gives the table of the lines. Others that want one wait meanwhile: it is likely to be the same.
func (t *tables) of(scope view.Key, list []*lines) *resource.Resource {
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
		runtime.AddCleanup(made, t.forget, sum)
	}
	t.byScope[scope] = weak.Make(made)
	return made.resource
}

// forget drops what is known of tables that nobody uses any more.
func (t *tables) forget(sum uint64) {
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

func sumOf(list []*lines) uint64 {
	b := make([]byte, 0, 8*len(list))
	for _, l := range list {
		b = binary.LittleEndian.AppendUint64(b, l.hash)
	}
	return xxhash.Sum64(b)
}

// newTable puts a table together. The lines of services are in order; those of pods go to their places among them. Where a
// pod and a ServiceEntry have one host the pod counts, as every host of the platform does before others.
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
