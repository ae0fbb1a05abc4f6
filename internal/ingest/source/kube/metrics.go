package kube

import (
	"github.com/meshpilot/meshpilot/internal/base/obs"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// NewMetrics returns Metrics that count in m. Events of Istio's own kinds are not counted: the
// pipeline counts them, for all sources.
func NewMetrics(m *obs.SourceMetrics) Metrics { return sourceMetrics{m} }

type sourceMetrics struct{ m *obs.SourceMetrics }

// Event increments the counter of received objects for the event, by istiod's name of the kind.
// Kinds other than Service, EndpointSlice, Pod, Node and Namespace are not counted.
func (x sourceMetrics) Event(kind api.Kind, event string) {
	var name string
	switch kind {
	case api.Service:
		name = "Services"
	case api.EndpointSlice:
		name = "EndpointSlice"
	case api.Pod:
		name = "Pods"
	case api.Node:
		name = "Nodes"
	case api.Namespace:
		name = "Namespaces"
	default:
		return
	}
	x.m.Events.WithLabelValues(name, event).Inc()
}

// Failed increments the counter of failed lists and watches.
func (x sourceMetrics) Failed(kind api.Kind) { x.m.Failures.WithLabelValues(string(kind)).Inc() }
