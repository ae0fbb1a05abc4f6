package obs

import "github.com/prometheus/client_golang/prometheus"

// ClusterMetrics are metrics of API servers, including remote clusters' servers, and of reads for
// single proxies.
type ClusterMetrics struct {
	// SecretErrors counts failed reads of Secrets and failed access checks.
	SecretErrors prometheus.Counter
	// NameErrors counts failed DNS lookups of network gateways.
	NameErrors prometheus.Counter
	// Managed is the number of clusters by cluster_type (local, remote). RemoteSync is 1 for the
	// state of each remote cluster, by cluster and status. RemoteTimeouts counts remote clusters
	// whose initial sync timed out.
	Managed        *prometheus.GaugeVec
	RemoteSync     *prometheus.GaugeVec
	RemoteTimeouts prometheus.Counter
}

// registerIn creates the metrics, sets them in m and registers them in t.
func (m *ClusterMetrics) registerIn(t *metricTable) {
	m.NameErrors = t.newCounter("meshpilot_gateway_name_errors_total",
		"Failures to resolve the name of a network's gateway.")
	m.SecretErrors = t.newCounter("pilot_sds_certificate_errors_total",
		"Failures to read a Secret for a proxy, or to check whether its account may read it.")
	m.Managed = t.newGaugeVec("istiod_managed_clusters",
		"Clusters whose services are read, by type: local, remote.", "cluster_type")
	m.RemoteSync = t.newGaugeVec("istiod_remote_cluster_sync_status",
		"1 for the state of each remote cluster: syncing, synced, timeout, failed.", "cluster_id", "status")
	m.RemoteTimeouts = t.newCounter("remote_cluster_sync_timeouts_total",
		"Remote clusters whose initial sync timed out.")
}
