package obs

import (
	"sync/atomic"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the control plane's metrics. Names and labels are Istio's, for which dashboards and
// alerts exist; names that begin with meshpilot_ are additions. docs/METRICS.md explains each.
type Metrics struct {
	Registry *prometheus.Registry
	table    metricTable

	// Clients is the number of connected proxies by version. Pushes counts responses by type,
	// SentBytes their bytes.
	Clients   *prometheus.GaugeVec
	Pushes    *prometheus.CounterVec
	SentBytes *prometheus.CounterVec
	// Rejects counts NACKs by type. Rejected is 1 for each proxy whose last response of the type
	// was rejected.
	Rejects  *prometheus.CounterVec
	Rejected map[string]*prometheus.GaugeVec // by short type: cds, eds, lds, rds
	// ExpiredNonces counts requests with the nonce of an older response, by type.
	ExpiredNonces *prometheus.CounterVec
	// Late counts resources sent although the proxy had not acknowledged their clusters in time, by
	// type.
	Late           *prometheus.CounterVec
	InternalErrors prometheus.Counter
	WriteTimeouts  prometheus.Counter
	// RefusedStreams counts streams refused because too many proxies connected at once.
	RefusedStreams prometheus.Counter
	// GRPC holds the metrics of unary calls, which are requests for certificates.
	GRPC *grpcprom.ServerMetrics
	// Panics counts recovered panics by component. InternalErrors counts them too.
	Panics *prometheus.CounterVec

	// Durations in seconds. Convergence is the time from a change to its acknowledgement by a
	// proxy. QueueTime is the time from a change until a proxy's update is sent. PushTime is the
	// time to generate a class's resources, by type. SendTime is the time to write one response.
	// SnapshotTime is the time to apply a change to the snapshot.
	Convergence  prometheus.Histogram
	QueueTime    prometheus.Histogram
	PushTime     *prometheus.HistogramVec
	SendTime     prometheus.Histogram
	SnapshotTime prometheus.Histogram
	// Debounce is how long changes were collected into one push, in seconds.
	Debounce prometheus.Histogram
	// ConfigSize is the size of responses by type, in bytes.
	ConfigSize *prometheus.HistogramVec

	// Triggers counts pushes by cause, InboundUpdates received events, ConfigEvents config objects
	// by kind.
	Triggers       *prometheus.CounterVec
	InboundUpdates *prometheus.CounterVec
	ConfigEvents   *prometheus.CounterVec
	// RejectedConfigs counts by kind and name how often an object stopped being used because of an
	// error in it.
	RejectedConfigs *prometheus.CounterVec

	Services, VirtServices prometheus.Gauge
	// The health of the model, recomputed periodically.
	NoIP, EndpointsNotReady, NoInstances, DNSWithoutEndpoints    prometheus.Gauge
	DuplicateDomains, DuplicateSubsets, OutboundConflicts        prometheus.Gauge
	PendingEndpoints                                             prometheus.Gauge
	StandingRejects, Quarantined, ProblemErrors, ProblemWarnings prometheus.Gauge

	// Classes is the number of different classes of connected proxies.
	Classes prometheus.Gauge
	// ConfigBytes is the size of the proxies' configuration in bytes: unique, and in total.
	// CacheSize is the number of different resources.
	ConfigBytes *prometheus.GaugeVec
	CacheSize   prometheus.Gauge

	// KeyFetches and KeyFetchFailures count attempts to fetch the keys of token issuers.
	KeyFetches, KeyFetchFailures prometheus.Counter

	Clusters ClusterMetrics
	Consul   ConsulMetrics
	Platform PlatformMetrics
	Sources  SourceMetrics
	Writes   WriteMetrics

	Authority AuthorityMetrics

	// Webhooks are the metrics of injection and validation.
	Webhooks *WebhookMetrics

	translated, generated, cacheReads *totals

	received atomic.Int64
	ready    func() bool
}

// Ready sets the function that reports whether the control plane is ready. It is called at each
// scrape. Until it is set, meshpilot_ready is 0.
func (m *Metrics) Ready(is func() bool) { m.ready = is }

// Received records the size of a request in bytes. Only the largest so far is kept and exported.
func (m *Metrics) Received(bytes int) {
	for {
		old := m.received.Load()
		if int64(bytes) <= old || m.received.CompareAndSwap(old, int64(bytes)) {
			return
		}
	}
}

// Computed exports two counters of a type: resources actually translated, and resources requested.
// Ten equal proxies cost as many translations as one.
func (m *Metrics) Computed(shortType string, translated, asked func() uint64) {
	m.translated.addSource(shortType, translated)
	m.generated.addSource(shortType, asked)
}

// CacheReads exports how many of the requested resources were cached, and how many were not.
func (m *Metrics) CacheReads(hits, misses func() uint64) {
	m.cacheReads.addSource("hit", hits)
	m.cacheReads.addSource("miss", misses)
}

// NewMetrics returns the metrics with a registry of their own, which includes metrics of the Go
// runtime and the process.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{Registry: r, table: metricTable{registry: r}, Rejected: map[string]*prometheus.GaugeVec{}}
	m.registerPushes(&m.table)
	m.registerTimes(&m.table)
	m.registerInputs(&m.table)
	m.registerModel(&m.table)
	m.registerCost(&m.table)
	m.KeyFetches = m.table.newCounter("pilot_jwks_resolver_network_fetch_success_total",
		"Successful fetches of the keys of a token issuer.")
	m.KeyFetchFailures = m.table.newCounter("pilot_jwks_resolver_network_fetch_fail_total",
		"Failed fetches of the keys of a token issuer.")
	m.Clusters.registerIn(&m.table)
	m.Consul.registerIn(&m.table)
	m.Platform.registerIn(&m.table)
	m.Sources.registerIn(&m.table)
	m.Writes.registerIn(&m.table)
	m.Authority.registerIn(&m.table)
	m.registerWebhooks(&m.table)
	m.GRPC = m.table.registerGRPC()
	m.registerBuild(&m.table)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// registerPushes creates the metrics of responses to proxies and their acknowledgements, sets them
// in m and registers them in t.
func (m *Metrics) registerPushes(t *metricTable) {
	m.Clients = t.newGaugeVec("pilot_xds", "Proxies connected, by the version that they say they have.", "version")
	m.Pushes = t.newCounterVec("pilot_xds_pushes", "Responses sent to proxies, by type.", "type")
	m.SentBytes = t.newCounterVec("meshpilot_xds_sent_bytes_total",
		"Bytes of responses sent to proxies, by type.", "type")
	m.ConfigSize = t.newHistogramVec("pilot_xds_config_size_bytes", "Size of responses, by type URL.",
		[]float64{1, 10_000, 1_000_000, 4_000_000, 10_000_000, 40_000_000}, "type")
	m.Rejects = t.newCounterVec("pilot_total_xds_rejects", "Responses that proxies refused, by type.", "type")
	for _, x := range []string{"cds", "eds", "lds", "rds"} {
		m.Rejected[x] = t.newGaugeVec("pilot_xds_"+x+"_reject",
			"1 for each proxy whose last response of the type was rejected.", "node", "err")
	}
	m.StandingRejects = t.newGauge("meshpilot_rejects_standing",
		"Rejections after which the proxy has accepted no later response of the type.")
	m.Quarantined = t.newGauge("meshpilot_quarantined_resources",
		"Resources withheld from proxies, and EnvoyFilters left out of them, "+
			"because proxies rejected them and none accepted them.")
	m.Late = t.newCounterVec("meshpilot_xds_late",
		"Responses sent although the proxy had not acknowledged in time the clusters that they refer to, by type.",
		"type")
	m.ExpiredNonces = t.newCounterVec("pilot_xds_expired_nonce",
		"Requests with the nonce of an older response, by type.", "type")
	m.InternalErrors = t.newCounter("pilot_total_xds_internal_errors",
		"Recovered panics, and resources that violate an invariant.")
	m.Panics = t.newCounterVec("meshpilot_panics_total", "Recovered panics, by component: "+
		"ingest, converter, snapshot, source, xds, generator, grpc, http, webhook, task.", "component")
	m.WriteTimeouts = t.newCounter("pilot_xds_write_timeout",
		"Streams ended because a response could not be written in time.")
	m.RefusedStreams = t.newCounter("meshpilot_xds_streams_refused_total",
		"Streams refused because too many proxies were connecting.")
	t.newGaugeFunc("pilot_xds_recv_max", "Size of the largest request so far, in bytes.",
		func() float64 { return float64(m.received.Load()) })
}

// registerTimes creates the histograms of durations, in seconds, sets them in m and registers them
// in t.
func (m *Metrics) registerTimes(t *metricTable) {
	proxy := []float64{.005, .01, .05, .1, .5, 1, 3, 5, 10, 20, 30}
	m.Convergence = t.newHistogram("pilot_proxy_convergence_time",
		"Time from a change to its acknowledgement by a proxy.", proxy)
	m.QueueTime = t.newHistogram("pilot_proxy_queue_time",
		"Time for which a proxy's update was queued before the proxy could receive it.", proxy)
	m.Debounce = t.newHistogram("pilot_debounce_time", "Time for which changes were collected into one push.",
		[]float64{.001, .01, .1, 1, 3, 5, 10, 20, 30})
	m.SnapshotTime = t.newHistogram("pilot_pushcontext_init_seconds",
		"Time to apply a change to the snapshot of the mesh.",
		[]float64{.0001, .001, .01, .1, .5, 1, 3, 5})
	m.PushTime = t.newHistogramVec("pilot_xds_push_time",
		"Time to generate the resources of a type for one class of proxies.",
		[]float64{.0001, .001, .01, .1, 1, 3, 5, 10, 20, 30}, "type")
	m.SendTime = t.newHistogram("pilot_xds_send_time", "Time to write a response.",
		[]float64{.001, .01, .1, 1, 3, 5, 10, 20, 30})
}

// registerInputs creates the metrics of events and the pushes that they cause, sets them in m and
// registers them in t.
func (m *Metrics) registerInputs(t *metricTable) {
	m.InboundUpdates = t.newCounterVec("pilot_inbound_updates",
		"Events received: config, svc, svcdelete, eds.", "type")
	m.ConfigEvents = t.newCounterVec("pilot_k8s_cfg_events",
		"Events of config objects, by kind and event (add, update, delete).", "type", "event")
	m.Triggers = t.newCounterVec("pilot_push_triggers",
		"Pushes, by cause: global, service, config, endpoint, proxy.", "type")
	m.RejectedConfigs = t.newCounterVec("pilot_total_rejected_configs",
		"How often an object, or a part of it, stopped being used because of an error in it.", "type", "name")
}

// registerModel creates the metrics of the health of the model, sets them in m and registers them
// in t.
func (m *Metrics) registerModel(t *metricTable) {
	m.Services = t.newGauge("pilot_services", "Services known.")
	m.VirtServices = t.newGauge("pilot_virt_services", "VirtualServices known.")
	m.NoIP = t.newGauge("pilot_no_ip", "Connected proxies at whose addresses no workload and no endpoint is known.")
	m.EndpointsNotReady = t.newGauge("pilot_endpoint_not_ready", "Endpoints that are known and not healthy.")
	m.NoInstances = t.newGauge("pilot_eds_no_instances",
		"Services without endpoints, of those whose endpoints proxies get by EDS.")
	m.DNSWithoutEndpoints = t.newGauge("pilot_dns_cluster_without_endpoints",
		"Services without endpoints, of those that proxies resolve by DNS.")
	m.DuplicateDomains = t.newGauge("pilot_vservice_dup_domain",
		"Hosts of more than one VirtualService of the same visibility for sidecars.")
	m.DuplicateSubsets = t.newGauge("pilot_destrule_subsets",
		"Hosts for which a subset is defined more than once in one namespace.")
	m.OutboundConflicts = t.newGauge("pilot_conflict_outbound_listener_tcp_over_current_tcp",
		"Services and rules that conflict with others at a connected proxy and are not applied there.")
	m.ProblemErrors = t.newGauge("meshpilot_problem_errors",
		"Objects, or parts of them, that are not used because of an error in them.")
	m.PendingEndpoints = t.newGauge("pilot_k8s_endpoints_pending_pod",
		"Addresses in EndpointSlices that are held back because their pods are not known yet.")
	m.ProblemWarnings = t.newGauge("meshpilot_problem_warnings", "Objects of which not everything is honored.")
}

// registerCost creates the metrics of the cost of translation, sets them in m and registers them in
// t. The cost should depend on what changed and not on the number of proxies.
func (m *Metrics) registerCost(t *metricTable) {
	m.Classes = t.newGauge("meshpilot_proxy_classes",
		"Different classes of connected proxies: all proxies of one class receive the same configuration.")
	m.ConfigBytes = t.newGaugeVec("meshpilot_config_bytes",
		"Size of connected proxies' configuration in bytes: each resource once (unique), and for each proxy (total).",
		"kind")
	m.CacheSize = t.newGauge("xds_cache_size", "Different resources that connected proxies have.")
	m.generated = t.newTotals("meshpilot_generated_resources_total",
		"Resources requested, once for each class of proxies, by type.", "type")
	m.translated = t.newTotals("meshpilot_translated_resources_total",
		"Resources actually translated, by type; the others were cached.", "type")
	m.cacheReads = t.newTotals("xds_cache_reads",
		"Requested resources that were cached (hit), and that had to be generated (miss).", "type")
}

// registerBuild registers version and build information, readiness, and the time since the start.
// Until m.ready is set, the control plane is reported as not ready.
func (m *Metrics) registerBuild(t *metricTable) {
	b := ReadBuild()
	start := time.Now()
	version := b.Version + "-" + b.GitRevision + "-" + b.BuildStatus
	t.newGaugeVec("pilot_info", "Version and build of the control plane.", "version").WithLabelValues(version).Set(1)
	t.newGaugeVec("istio_build", "How the component was built.", "component", "tag").
		WithLabelValues("pilot", b.Version).Set(1)
	m.ready = func() bool { return false }
	t.newGaugeFunc("meshpilot_ready", "1 if the control plane is ready (/ready), else 0.", func() float64 {
		if m.ready() {
			return 1
		}
		return 0
	})
	t.newGaugeFunc("istiod_uptime_seconds", "Seconds since the start.",
		func() float64 { return time.Since(start).Seconds() })
}

// CountPanic counts a recovered panic of a component, also as an internal error.
func (m *Metrics) CountPanic(component string) {
	m.InternalErrors.Inc()
	m.Panics.WithLabelValues(component).Inc()
}

// CountKeyFetch counts an attempt to fetch the keys of a token issuer: as failed if err is not nil,
// otherwise as successful.
func (m *Metrics) CountKeyFetch(err error) {
	if err != nil {
		m.KeyFetchFailures.Inc()
		return
	}
	m.KeyFetches.Inc()
}
