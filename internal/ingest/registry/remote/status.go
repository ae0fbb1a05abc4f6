package remote

import (
	"cmp"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// The states of a cluster, as istiod names them, and one more.
const (
	// Syncing: not everything was read yet.
	Syncing = "syncing"
	// Synced: everything was read once. What comes later of an API server that is away is not lost.
	Synced = "synced"
	// TimedOut: not everything was read yet, and it is not waited for any more.
	TimedOut = "timeout"
	// Failed: the kubeconfig cannot be used, and there is none from before.
	Failed = "failed"
)

// Status is how it stands with one cluster.
type Status struct {
	Cluster mesh.ClusterID
	Secret  config.Key
	// State is one of those above. Of a cluster whose kubeconfig has changed it is that of the old one until the new one is in sync.
	State string
	// Waiting says what cannot be read at present, or what is wrong with the kubeconfig; "": nothing.
	Waiting string
	// Services, Workloads and Shards are how many there are.
	Services, Workloads, Shards int

	began time.Time
}

// Status gives how it stands with each cluster, sorted by name.
func (c *Clusters) Status() []Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]Status, 0, len(c.statuses))
	for _, s := range c.statuses {
		if s.State == Syncing && c.late(s.began) {
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

// Client gives the client of a remote cluster, nil where it is not known.
func (c *Clusters) Client(id mesh.ClusterID) *kube.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[id]
}
