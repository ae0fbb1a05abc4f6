package obs

import "github.com/prometheus/client_golang/prometheus"

// SourceMetrics is about the API servers that objects are read from.
type SourceMetrics struct {
	// Events counts objects that came, of the kinds of the registry.
	Events *prometheus.CounterVec
	// Failures counts lists and watches that failed; Errors is 1 for each kind that cannot be read, Age the seconds for which a
	// source has not been able to read one of its kinds.
	Failures *prometheus.CounterVec
	Errors   *prometheus.GaugeVec
	Age      *prometheus.GaugeVec
}

func (m *SourceMetrics) register(t *metricTable) {
	m.Events = t.counters("pilot_k8s_reg_events", "Events about the objects of the Kubernetes registry, by kind and event (add, update, delete, updatesame).", "type", "event")
	m.Failures = t.counters("meshpilot_source_failures_total", "Lists and watches of API servers that failed, by kind.", "type")
	m.Errors = t.gauges("meshpilot_source_errors", "1 for each kind of object that cannot be read from an API server.", "source", "type")
	m.Age = t.gauges("meshpilot_source_age_seconds", "How long one of a source's kinds could not be read, so how old what is known of it may be.", "source")
}
