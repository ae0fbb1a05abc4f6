package obs

import "github.com/prometheus/client_golang/prometheus"

// PlatformMetrics are metrics of the platforms beside Kubernetes and Consul, by the name of the
// platform.
type PlatformMetrics struct {
	// Synced is 1 while the platform can be read and has reported everything. LastSync is when it
	// last did so, in seconds since 1970.
	Synced, LastSync *prometheus.GaugeVec
	// Failures counts how often watching the platform failed.
	Failures *prometheus.CounterVec
	// Services and Instances are in use. Held is how many of the instances the platform does not
	// list. Problems is how many services have a problem.
	Services, Instances, Held, Problems *prometheus.GaugeVec
}

// registerIn creates the metrics, sets them in m and registers them in t.
func (m *PlatformMetrics) registerIn(t *metricTable) {
	m.Synced = t.newGaugeVec("meshpilot_platform_synced",
		"1 while the platform can be read and has reported everything, else 0.", "platform")
	m.LastSync = t.newGaugeVec("meshpilot_platform_last_sync_seconds",
		"When the platform last reported everything, in seconds since 1970.", "platform")
	m.Failures = t.newCounterVec("meshpilot_platform_failures_total",
		"How often watching the platform failed.", "platform")
	m.Services = t.newGaugeVec("meshpilot_platform_services", "Services of the platform that are in use.", "platform")
	m.Instances = t.newGaugeVec("meshpilot_platform_instances", "Instances of the platform's services that are in use.",
		"platform")
	m.Held = t.newGaugeVec("meshpilot_platform_held_instances",
		"Instances that stay in use although the platform does not list them: it may have lost its data.", "platform")
	m.Problems = t.newGaugeVec("meshpilot_platform_problems",
		"Services of the platform that cannot be read or converted, and 1 for the platform itself.", "platform")
}
