package obs

import "github.com/prometheus/client_golang/prometheus"

// WriteMetrics are metrics of the control plane's writes to API servers.
type WriteMetrics struct {
	// Leading is 1 for each task that this replica leads. Statuses counts writes of object
	// statuses, by kind and outcome.
	Leading  *prometheus.GaugeVec
	Statuses *prometheus.CounterVec
	// Events counts Kubernetes Events on objects with errors, by the object's kind and outcome.
	Events *prometheus.CounterVec
	// Counters of WorkloadEntries of workloads that register themselves.
	Registered, Updated, Unregistered, Deleted, Errors prometheus.Counter
}

// registerIn creates the metrics, sets them in m and registers them in t.
func (m *WriteMetrics) registerIn(t *metricTable) {
	m.Leading = t.newGaugeVec("meshpilot_leader", "1 for each task that this replica is the leader for.", "task")
	m.Statuses = t.newCounterVec("meshpilot_status_writes_total",
		"Writes of the status of objects, by kind and outcome.", "type", "outcome")
	m.Events = t.newCounterVec("meshpilot_events_total",
		"Kubernetes Events on objects with errors, by the kind of the object and outcome.", "type", "outcome")
	m.Registered = t.newCounter("auto_registration_success_total",
		"WorkloadEntries created for workloads that registered themselves.")
	m.Updated = t.newCounter("auto_registration_updates_total",
		"WorkloadEntries marked as belonging to a workload connected to this replica.")
	m.Unregistered = t.newCounter("auto_registration_unregister_total",
		"WorkloadEntries marked as belonging to a workload that has disconnected.")
	m.Deleted = t.newCounter("auto_registration_deletes_total",
		"WorkloadEntries deleted because their workload did not reconnect in time.")
	m.Errors = t.newCounter("auto_registration_errors_total", "Failed updates of a workload's WorkloadEntry.")
}
