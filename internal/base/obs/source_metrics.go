package obs

import "github.com/prometheus/client_golang/prometheus"

// SourceMetrics are metrics of the API servers from which objects are read.
type SourceMetrics struct {
	// Events counts received objects of the registry's kinds.
	Events *prometheus.CounterVec
	// Failures counts failed lists and watches. Errors is 1 for each kind that cannot be read. Age
	// is how long a source has been unable to read one of its kinds, in seconds.
	Failures *prometheus.CounterVec
	Errors   *prometheus.GaugeVec
	Age      *prometheus.GaugeVec
}

// registerIn creates the metrics, sets them in m and registers them in t.
func (m *SourceMetrics) registerIn(t *metricTable) {
	m.Events = t.newCounterVec("pilot_k8s_reg_events",
		"Events of the objects of the Kubernetes registry, by kind and event (add, update, delete, updatesame).",
		"type", "event")
	m.Failures = t.newCounterVec("meshpilot_source_failures_total",
		"Failed lists and watches of API servers, by kind.", "type")
	m.Errors = t.newGaugeVec("meshpilot_source_errors",
		"1 for each kind of object that cannot be read from an API server.", "source", "type")
	m.Age = t.newGaugeVec("meshpilot_source_age_seconds",
		"How long one of a source's kinds could not be read, and thus how stale its objects may be.", "source")
}
