package obs

import "github.com/prometheus/client_golang/prometheus"

// ClusterMetrics are about API servers, those of other clusters too, and what is read of them for single proxies.
type ClusterMetrics struct {
	// SecretErrors counts Secrets that could not be read and rights that could not be asked for.
	SecretErrors prometheus.Counter
	// NameErrors counts names of networks' gateways that could not be resolved.
	NameErrors prometheus.Counter
	// Managed is the number of clusters by cluster_type (local, remote); RemoteSync is 1 for the state that each remote cluster is in,
	// by cluster and status. RemoteTimeouts counts those that were not waited for any longer.
	Managed        *prometheus.GaugeVec
	RemoteSync     *prometheus.GaugeVec
	RemoteTimeouts prometheus.Counter
}

func (m *ClusterMetrics) register(t *metricTable) {
	m.NameErrors = t.counter("meshpilot_gateway_name_errors_total", "Failures to resolve the name of a network's gateway.")
	m.SecretErrors = t.counter("pilot_sds_certificate_errors_total", "Failures to read a Secret for a proxy, or to ask whether its account may.")
	m.Managed = t.gauges("istiod_managed_clusters", "Clusters whose services are read, by type: local, remote.", "cluster_type")
	m.RemoteSync = t.gauges("istiod_remote_cluster_sync_status", "1 for the state of each remote cluster: syncing, synced, timeout, failed.", "cluster_id", "status")
	m.RemoteTimeouts = t.counter("remote_cluster_sync_timeouts_total", "Remote clusters that were not waited for any longer at the start.")
}
