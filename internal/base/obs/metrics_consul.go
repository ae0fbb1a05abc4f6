package obs

import "github.com/prometheus/client_golang/prometheus"

// ConsulMetrics are metrics of the Consul registry.
type ConsulMetrics struct {
	// Queries counts queries, Failures failed ones by reason (acl, server, rate_limit,
	// unreachable). Failing is the number of queries that fail now.
	Queries  prometheus.Counter
	Failures *prometheus.CounterVec
	Failing  prometheus.Gauge
	// Held is the number of instances in use that Consul does not list. Resets counts how often the
	// servers had lost their data.
	Held   prometheus.Gauge
	Resets prometheus.Counter
}

// registerIn creates the metrics, sets them in m and registers them in t.
func (m *ConsulMetrics) registerIn(t *metricTable) {
	m.Queries = t.newCounter("meshpilot_consul_queries_total", "Queries of Consul.")
	m.Failures = t.newCounterVec("meshpilot_consul_query_failures_total",
		"Failed queries of Consul, by reason: acl, server, rate_limit, unreachable.", "reason")
	m.Failing = t.newGauge("meshpilot_consul_failing_queries", "Queries of Consul that fail now.")
	m.Held = t.newGauge("meshpilot_consul_held_instances",
		"Instances that stay in use although Consul does not list them: it lost its data, or the token lost a right.")
	m.Resets = t.newCounter("meshpilot_consul_resets_total",
		"How often the Consul servers had lost their data or were restored from a snapshot.")
}
