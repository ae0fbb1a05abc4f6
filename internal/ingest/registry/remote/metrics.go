package remote

import (
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// NewMetrics returns Metrics that are recorded in m, with no remote cluster yet. It counts the
// local cluster.
func NewMetrics(m *obs.ClusterMetrics) Metrics {
	m.Managed.WithLabelValues("local").Set(1)
	m.Managed.WithLabelValues("remote").Set(0)
	return clusterMetrics{m}
}

type clusterMetrics struct{ m *obs.ClusterMetrics }

// SetStates sets the number of remote clusters, and the gauge of the sync state of each. Gauges of
// earlier states and clusters are removed.
func (x clusterMetrics) SetStates(states map[mesh.ClusterID]string) {
	x.m.Managed.WithLabelValues("remote").Set(float64(len(states)))
	x.m.RemoteSync.Reset()
	for id, state := range states {
		x.m.RemoteSync.WithLabelValues(string(id), state).Set(1)
	}
}

// TimedOut increments the counter of remote clusters that exceeded the start timeout.
func (x clusterMetrics) TimedOut(mesh.ClusterID) { x.m.RemoteTimeouts.Inc() }
