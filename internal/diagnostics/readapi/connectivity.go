package readapi

import (
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/clock"
	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// connectivityCache keeps the workloads of a snapshot and what was computed of them, for all clients.
type connectivityCache struct {
	mu    sync.Mutex
	until time.Time
	now   *knownMesh
}

// knownMesh is the workloads of a snapshot, with results that are computed at the first use.
type knownMesh struct {
	*connectivity.Mesh
	plainText func() ([]connectivity.PlainTextCall, bool)
}

// mesh returns the workloads of the snapshot s, which it computes at most once. After a slow
// computation it returns those of an older snapshot for lookShare times its duration, so that a mesh
// that changes often costs no more than a mesh that does not.
func (c *connectivityCache) mesh(now clock.Clock, s *snapshot.Snapshot) *knownMesh {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := now.Now()
	if c.now != nil && (c.now.Snapshot == s || start.Before(c.until)) {
		return c.now
	}
	m := connectivity.New(s)
	c.now = &knownMesh{Mesh: m, plainText: sync.OnceValues(m.PlainTextCalls)}
	end := now.Now()
	c.until = end.Add(lookShare * end.Sub(start))
	return c.now
}
