package obs

import "github.com/prometheus/client_golang/prometheus"

// WriteMetrics are what the control plane writes to API servers.
type WriteMetrics struct {
	// Leading is 1 for each task that this replica leads. Statuses counts writes of the status of objects, by kind and outcome.
	Leading  *prometheus.GaugeVec
	Statuses *prometheus.CounterVec
	// Of WorkloadEntries for workloads that register themselves.
	Registered, Updated, Unregistered, Deleted, Errors prometheus.Counter
}

func (m *WriteMetrics) register(t *metricTable) {
	m.Leading = t.gauges("meshpilot_leader", "1 for each task that this replica is the leader for.", "task")
	m.Statuses = t.counters("meshpilot_status_writes_total", "Writes of the status of objects, by kind and outcome.", "type", "outcome")
	m.Registered = t.counter("auto_registration_success_total", "WorkloadEntries made for workloads that registered themselves.")
	m.Updated = t.counter("auto_registration_updates_total", "WorkloadEntries noted to be of a workload that is connected to this replica.")
	m.Unregistered = t.counter("auto_registration_unregister_total", "WorkloadEntries noted to be of a workload that has left.")
	m.Deleted = t.counter("auto_registration_deletes_total", "WorkloadEntries removed because their workload did not come back in time.")
	m.Errors = t.counter("auto_registration_errors_total", "Failures to bring the WorkloadEntry of a workload to where it should be.")
}
