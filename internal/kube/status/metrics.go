package status

import (
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// NewMetrics returns Metrics that increment the counters of m.
func NewMetrics(m *obs.WriteMetrics) Metrics { return writeMetrics{m} }

type writeMetrics struct{ m *obs.WriteMetrics }

// Written increments the counter of the kind and outcome.
func (x writeMetrics) Written(kind api.Kind, outcome string) {
	x.m.Statuses.WithLabelValues(string(kind), outcome).Inc()
}
