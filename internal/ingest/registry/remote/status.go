package remote

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// The states of a cluster. The names are istiod's, plus Failed.
const (
	// Syncing means that the initial state has not been read completely.
	Syncing = "syncing"
	// Synced means that the initial state has been read. A later interruption does not change the
	// state.
	Synced = "synced"
	// TimedOut means that the initial state has not been read within Options.Timeout.
	TimedOut = "timeout"
	// Failed means that the kubeconfig is unusable and there is no earlier one.
	Failed = "failed"
)

// Status describes one cluster.
type Status struct {
	Cluster mesh.ClusterID
	Secret  config.Key
	// State is one of the states above. After a change of the kubeconfig it is that of the old
	// reader until the new one is in sync.
	State string
	// Waiting is what cannot be read at present, or the error of the kubeconfig; "" if there is
	// none.
	Waiting string
	// Services, Workloads and Shards are counts.
	Services, Workloads, Shards int

	began time.Time
}

// Status returns the status of each remote cluster, sorted by name. A cluster that is not in sync
// in time is TimedOut. It returns nil if c is nil. It may be called by any goroutine.
func (c *Clusters) Status() []Status {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Status, 0, len(c.statuses))
	for _, s := range c.statuses {
		if s.State == Syncing && c.isLate(s.began) {
			s.State = TimedOut
		}
		if w, ok := c.readers[s.Cluster].(interface{ Waiting() string }); ok && s.Waiting == "" {
			s.Waiting = w.Waiting()
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Status) int { return cmp.Compare(a.Cluster, b.Cluster) })
	return list
}

// IDs returns the names of the remote clusters, sorted. It returns nil if c is nil.
func (c *Clusters) IDs() (list []mesh.ClusterID) {
	for _, s := range c.Status() {
		list = append(list, s.Cluster)
	}
	return list
}

// Unsynced returns the names of the remote clusters that are not in sync, sorted. It returns nil if
// all are or c is nil.
func (c *Clusters) Unsynced() (list []string) {
	for _, s := range c.Status() {
		if s.State != Synced {
			list = append(list, string(s.Cluster))
		}
	}
	return list
}

// Client returns the client of the newest usable kubeconfig of a remote cluster, or nil if the
// cluster is unknown or c is nil.
func (c *Clusters) Client(id mesh.ClusterID) *kube.Client {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[id]
}

// updateStatus updates what other goroutines read: statuses, readers and clients. It notifies Each
// if the clients differ, and sets the metrics. It takes c.mu.
func (c *Clusters) updateStatus() {
	states := map[mesh.ClusterID]string{}
	c.mu.Lock()
	before := maps.Clone(c.clients)
	clear(c.readers)
	clear(c.clients)
	for id, s := range c.statuses {
		m := c.members[id]
		s.State, s.Waiting = c.stateOf(m), c.failed[id]
		if m != nil {
			c.readers[id], c.clients[id] = m.parts.Source, cmp.Or(c.next[id], m).client
			s.Services = m.state.counts[services]
			s.Workloads = m.state.counts[workloads]
			s.Shards = m.state.counts[shards]
			s.began = m.began
		}
		c.statuses[id], states[id] = s, s.State
	}
	if !maps.Equal(before, c.clients) {
		c.changed.Notify()
	}
	c.mu.Unlock()
	c.o.Metrics.SetStates(states)
}

// stateOf returns the state of a cluster with this member: Failed without a member, or Synced. A
// member that is not in sync is TimedOut after Options.Timeout or endWait, and Syncing before.
func (c *Clusters) stateOf(m *member) string {
	switch {
	case m == nil:
		return Failed
	case m.synced:
		return Synced
	case m.late || c.isLate(m.began):
		return TimedOut
	default:
		return Syncing
	}
}

// isLate reports whether a cluster whose reading began at this time has exceeded Options.Timeout.
// It returns false without a timeout.
func (c *Clusters) isLate(began time.Time) bool {
	return c.o.Timeout > 0 && time.Since(began) >= c.o.Timeout
}
