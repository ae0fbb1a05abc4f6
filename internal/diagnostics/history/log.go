package history

import (
	"container/list"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

const (
	// versionOverhead is added to the size of a version for its metadata.
	versionOverhead = 512
	// maxRecorded bounds the objects of one snapshot that are recorded. More change at once only
	// when a cluster is added or removed.
	maxRecorded = 1000
)

// Limits bound a Log.
type Limits struct {
	// Bytes is the size of all versions together (default 16 MiB; MESHPILOT_OBJECT_HISTORY_BYTES).
	// If it is 0, nothing is recorded.
	Bytes int
	// Versions is the number of versions of one object (default 20;
	// MESHPILOT_OBJECT_HISTORY_VERSIONS). If it is 0, nothing is recorded.
	Versions int
}

// DefaultLimits returns the defaults of Limits: 16 MiB in all, and 20 versions of an object.
func DefaultLimits() Limits { return Limits{Bytes: 16 << 20, Versions: 20} } //nolint:mnd // the defaults

// Log contains the last versions of objects that have changed.
type Log struct {
	limits Limits
	clock  clock.Clock

	mu sync.Mutex
	// kinds are the objects of the last snapshot, nil before the first.
	kinds   map[api.Kind][]*config.Config
	objects map[config.Key]*object
	order   *list.List // of *version, oldest first
	bytes   int
}

// object has the recorded versions of an object, oldest first.
type object struct {
	versions []*version
	evicted  bool
}

// version is a recorded Version with its size and its place in Log.order.
type version struct {
	Version
	key     config.Key
	bytes   int
	element *list.Element
}

// Version is one version of an object.
type Version struct {
	// Time is when the version took effect; zero if that was before the first recorded change.
	Time time.Time
	// Config is nil if the object was deleted.
	Config *config.Config
}

// New returns an empty Log. If c is nil, the system's clock is used.
func New(l Limits, c clock.Clock) *Log {
	if c == nil {
		c = clock.System{}
	}
	return &Log{limits: l, clock: c, objects: map[config.Key]*object{}, order: list.New()}
}

// RecordSnapshot records the objects whose content differs from the last snapshot, at most
// maxRecorded. The first snapshot is only the state to compare with. It does nothing if either
// limit is 0 or negative. Further differences are lost.
func (l *Log) RecordSnapshot(s *snapshot.Snapshot) {
	if l.limits.Bytes <= 0 || l.limits.Versions <= 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.kinds
	l.kinds = map[api.Kind][]*config.Config{}
	recorded := 0
	for _, kind := range api.Kinds() {
		now := s.Configs(kind.Kind)
		l.kinds[kind.Kind] = now
		if before == nil {
			continue
		}
		forEachDifference(before[kind.Kind], now, func(was, is *config.Config) {
			if recorded++; recorded <= maxRecorded {
				l.record(was, is)
			}
		})
	}
}

// forEachDifference calls f with each object that was added (was is nil), removed (is is nil) or
// changed in content (Hash), in the order of keys. Both lists must be sorted by key. Lists that
// share their memory are equal.
func forEachDifference(before, now []*config.Config, f func(was, is *config.Config)) {
	if len(before) == len(now) && (len(now) == 0 || &before[0] == &now[0]) {
		return
	}
	for len(before) > 0 || len(now) > 0 {
		switch {
		case len(now) == 0 || len(before) > 0 && before[0].Key.Compare(now[0].Key) < 0:
			f(before[0], nil)
			before = before[1:]
		case len(before) == 0 || now[0].Key.Compare(before[0].Key) < 0:
			f(nil, now[0])
			now = now[1:]
		default:
			if before[0] != now[0] && before[0].Hash != now[0].Hash {
				f(before[0], now[0])
			}
			before, now = before[1:], now[1:]
		}
	}
}

// record adds the version is, nil after a deletion, with the present time. Before it, it adds was
// without a time, unless that is nil or the last recorded version. It evicts the oldest versions of
// the object, and then of all objects, beyond the limits. was and is must not both be nil; l.mu
// must be held.
func (l *Log) record(was, is *config.Config) {
	var k config.Key
	if is != nil {
		k = is.Key
	} else {
		k = was.Key
	}
	o := l.objects[k]
	if o == nil {
		o = &object{}
		l.objects[k] = o
	}
	if was != nil && (len(o.versions) == 0 || o.versions[len(o.versions)-1].Config != was) {
		l.add(o, k, Version{Config: was})
	}
	l.add(o, k, Version{Time: l.clock.Now(), Config: is})
	for len(o.versions) > l.limits.Versions {
		l.evict(o.versions[0])
	}
	for l.bytes > l.limits.Bytes {
		if oldest, ok := l.order.Front().Value.(*version); ok {
			l.evict(oldest)
		}
	}
}

// add appends a version to the versions of the object k and to the order of eviction, and adds its
// size to l.bytes.
func (l *Log) add(o *object, k config.Key, v Version) {
	x := &version{Version: v, key: k, bytes: sizeOf(v.Config)}
	x.element = l.order.PushBack(x)
	o.versions = append(o.versions, x)
	l.bytes += x.bytes
}

// evict removes a version from its object and from the order of eviction, and marks the object as
// evicted. The object is forgotten with its last version. l.mu must be held.
func (l *Log) evict(v *version) {
	l.order.Remove(v.element)
	l.bytes -= v.bytes
	o := l.objects[v.key]
	o.versions = slices.DeleteFunc(o.versions, func(x *version) bool { return x == v })
	o.evicted = true
	if len(o.versions) == 0 {
		delete(l.objects, v.key)
	}
}

// sizeOf returns about how many bytes of memory a version takes. A deletion has only the overhead.
func sizeOf(c *config.Config) int {
	if c == nil {
		return versionOverhead
	}
	if m, ok := c.Spec.(proto.Message); ok {
		return versionOverhead + 2*proto.Size(m) //nolint:mnd // Go structs take about twice the wire size
	}
	text, _ := json.Marshal(c.Spec) //nolint:errchkjson // objects of an API server; the rest is counted
	return versionOverhead + len(text)
}

// Versions returns the recorded versions of an object, oldest first, and whether older ones were
// evicted. Without any, the object has not changed since the start, or all were evicted. Once all
// are evicted this is forgotten: evicted is then false, also with later versions.
func (l *Log) Versions(k config.Key) (versions []Version, evicted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.objects[k]
	if o == nil {
		return nil, false
	}
	for _, v := range o.versions {
		versions = append(versions, v.Version)
	}
	return versions, o.evicted
}
