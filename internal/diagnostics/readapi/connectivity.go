package readapi

import (
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/xds/push"
)

// maxAnswers limits the answers about callers that are kept for a snapshot.
const maxAnswers = 16

// connectivityCache keeps the workloads of a snapshot and what was computed of them, for all clients.
// It computes one answer at a time.
type connectivityCache struct {
	mu    sync.Mutex
	until time.Time
	now   *knownMesh
	// withoutCertificates reports whether the proxies have no certificates. If nil, they have.
	withoutCertificates func() bool
}

// knownMesh is the workloads of a snapshot, with answers that are computed at their first use.
type knownMesh struct {
	*connectivity.Mesh
	withoutCertificates bool

	plainText func() ([]connectivity.PlainTextCall, bool)
	topology  func() *connectivity.Topology
	callers   map[connectivity.Question]*connectivity.Callers
}

// mesh returns the workloads of the snapshot s, which it computes at most once. After a computation
// it returns the workloads of an older snapshot for lookShare times its CPU time, so that a mesh
// that changes often costs no more than a mesh that does not.
func (c *connectivityCache) mesh(now clock.Clock, s *snapshot.Snapshot) *knownMesh {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current(now, s)
}

// callers returns the answer to a question about a service, and the workloads that it was computed
// from. These may be of an older snapshot than s (mesh). It keeps the answers to maxAnswers
// questions. After that many it forgets all others.
func (c *connectivityCache) callers(
	now clock.Clock, s *snapshot.Snapshot, q connectivity.Question, generators []view.Generator,
) (*knownMesh, *connectivity.Callers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.current(now, s)
	answer := m.callers[q]
	if answer == nil {
		cost := cpuTime(func() { answer = m.Callers(q, generators) })
		if len(m.callers) == maxAnswers {
			clear(m.callers)
		}
		m.callers[q] = answer
		c.keepFor(now, cost)
	}
	return m, answer
}

// topology returns the topology, and the workloads that it was computed from. Both may be of an
// older snapshot than s (mesh).
func (c *connectivityCache) topology(now clock.Clock, s *snapshot.Snapshot) (*knownMesh, *connectivity.Topology) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.current(now, s)
	var x *connectivity.Topology
	c.keepFor(now, cpuTime(func() { x = m.topology() }))
	return m, x
}

// current returns the workloads of s, or until c.until the workloads of an older snapshot, unless
// proxies have got or lost certificates since. The caller holds the lock. Making them takes CPU
// time, to which keepFor adapts c.until.
func (c *connectivityCache) current(now clock.Clock, s *snapshot.Snapshot) *knownMesh {
	without, build := c.withoutCertificates != nil && c.withoutCertificates(), connectivity.New
	if c.now != nil && c.now.withoutCertificates == without && (c.now.Snapshot == s || now.Now().Before(c.until)) {
		return c.now
	}
	if without {
		build = connectivity.NewWithoutCertificates
	}
	var m *connectivity.Mesh
	cost := cpuTime(func() { m = build(s) })
	c.now = &knownMesh{
		Mesh:                m,
		withoutCertificates: without,
		plainText:           sync.OnceValues(m.PlainTextCalls),
		topology:            sync.OnceValue(m.Topology),
		callers:             map[connectivity.Question]*connectivity.Callers{},
	}
	c.keepFor(now, cost)
	return c.now
}

// haveNoCertificates reports whether proxies are connected, and the agents of all of them report
// that they have no certificates of the mesh, because there is no authority.
func haveNoCertificates(list []push.StreamState) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(s push.StreamState) bool {
		return s.Proxy.Metadata.Identity != mesh.NoIdentity
	})
}

// keepFor sets c.until to lookShare times the CPU time of a computation from now, unless it is later
// already.
func (c *connectivityCache) keepFor(now clock.Clock, cost time.Duration) {
	if until := now.Now().Add(lookShare * cost); until.After(c.until) {
		c.until = until
	}
}
