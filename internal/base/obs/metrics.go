package obs

import (
	"sync/atomic"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics is the control plane's metrics. Names and labels are those of Istio, which dashboards and alerts know; names that
// begin with meshpilot_ are ours. docs/METRICS.md explains each.
type Metrics struct {
	Registry *prometheus.Registry
	table    metricTable

	// Clients is the connected proxies by version; Pushes the responses sent by type, SentBytes their bytes.
	Clients   *prometheus.GaugeVec
	Pushes    *prometheus.CounterVec
	SentBytes *prometheus.CounterVec
	// Rejects counts NACKs by type; Rejected is 1 for each proxy whose last response of the type was refused.
	Rejects  *prometheus.CounterVec
	Rejected map[string]*prometheus.GaugeVec // by short type: cds, eds, lds, rds
	// ExpiredNonces counts requests with the nonce of an older response, by type.
	ExpiredNonces *prometheus.CounterVec
	// Late counts resources that were sent although the proxy had not shown that it has their clusters, by type.
	Late           *prometheus.CounterVec
	InternalErrors prometheus.Counter
	WriteTimeouts  prometheus.Counter
	// GRPC counts unary calls of gRPC, which are requests for certificates.
	GRPC *grpcprom.ServerMetrics
	// Panics counts recovered panics by component. InternalErrors counts them too.
	Panics *prometheus.CounterVec

	// Convergence is the time from a change to the acknowledgement by a proxy, QueueTime that from a change to the moment
	// a proxy's turn came, PushTime that of making one class's resources by type, SendTime that of writing one response,
	// SnapshotTime that of taking a change into the snapshot. All in seconds.
	Convergence  prometheus.Histogram
	QueueTime    prometheus.Histogram
	PushTime     *prometheus.HistogramVec
	SendTime     prometheus.Histogram
	SnapshotTime prometheus.Histogram
	// Debounce is how long changes were gathered, in seconds.
	Debounce prometheus.Histogram
	// ConfigSize is the size of responses by type, in bytes.
	ConfigSize *prometheus.HistogramVec

	// Triggers counts pushes by what caused them, InboundUpdates events that came in, ConfigEvents config objects by kind.
	Triggers       *prometheus.CounterVec
	InboundUpdates *prometheus.CounterVec
	ConfigEvents   *prometheus.CounterVec
	// RejectedConfigs counts by kind and name how often an object went out of use because something is wrong with it.
	RejectedConfigs *prometheus.CounterVec

	Services, VirtServices prometheus.Gauge
	// The health of the model, counted anew from time to time.
	NoIP, EndpointsNotReady, NoInstances, DNSWithoutEndpoints    prometheus.Gauge
	DuplicateDomains, DuplicateSubsets, OutboundConflicts        prometheus.Gauge
	PendingEndpoints                                             prometheus.Gauge
	StandingRejects, Quarantined, ProblemErrors, ProblemWarnings prometheus.Gauge

	// Classes is how many different classes of proxies are connected.
	Classes prometheus.Gauge
	// ConfigBytes is the bytes of what proxies have: unique, and in total. CacheSize is the number of different resources.
	ConfigBytes *prometheus.GaugeVec
	CacheSize   prometheus.Gauge

	// KeyFetches and KeyFetchFailures count attempts to get the keys of token issuers.
	KeyFetches, KeyFetchFailures prometheus.Counter

	Clusters ClusterMetrics
	Sources  SourceMetrics
	Writes   WriteMetrics

	Authority AuthorityMetrics

	// Webhooks are those of injection and validation.
	Webhooks *WebhookMetrics

	translated, generated, cacheReads *totals

	received atomic.Int64
}

// Received notes the size of a request in bytes; the largest is shown.
func (m *Metrics) Received(bytes int) {
	for {
		old := m.received.Load()
		if int64(bytes) <= old || m.received.CompareAndSwap(old, int64(bytes)) {
			return
		}
	}
}

// Computed shows counters that somebody else counts: resources of a type that were really translated, of those that were
// asked for. Ten alike proxies cost as many as one.
func (m *Metrics) Computed(shortType string, translated, asked func() uint64) {
	m.translated.with(shortType, translated)
	m.generated.with(shortType, asked)
}

// CacheReads shows how many of the resources that were asked for were there already, and how many had to be made.
func (m *Metrics) CacheReads(hits, misses func() uint64) {
	m.cacheReads.with("hit", hits)
	m.cacheReads.with("miss", misses)
}

// NewMetrics makes the metrics with a registry of their own, in which those of the Go runtime and the process are too.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{Registry: r, table: metricTable{registry: r}, Rejected: map[string]*prometheus.GaugeVec{}}
	m.pushes(&m.table)
	m.times(&m.table)
	m.inputs(&m.table)
	m.model(&m.table)
	m.cost(&m.table)
	m.KeyFetches = m.table.counter("pilot_jwks_resolver_network_fetch_success_total", "Times the keys of a token issuer were fetched.")
	m.KeyFetchFailures = m.table.counter("pilot_jwks_resolver_network_fetch_fail_total", "Times the keys of a token issuer could not be fetched.")
	m.Clusters.register(&m.table)
	m.Sources.register(&m.table)
	m.Writes.register(&m.table)
	m.Authority.register(&m.table)
	m.webhooks(&m.table)
	m.GRPC = m.table.grpcServer()
	m.about(&m.table)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// pushes are what was sent to proxies, and what they made of it.
func (m *Metrics) pushes(t *metricTable) {
	m.Clients = t.gauges("pilot_xds", "Proxies connected, by the version that they say they have.", "version")
	m.Pushes = t.counters("pilot_xds_pushes", "Responses sent to proxies, by type.", "type")
	m.SentBytes = t.counters("meshpilot_xds_sent_bytes_total", "Bytes of responses sent to proxies, by type.", "type")
	m.ConfigSize = t.histograms("pilot_xds_config_size_bytes", "Size of responses, by type URL.",
		[]float64{1, 10_000, 1_000_000, 4_000_000, 10_000_000, 40_000_000}, "type")
	m.Rejects = t.counters("pilot_total_xds_rejects", "Responses that proxies refused, by type.", "type")
	for _, x := range []string{"cds", "eds", "lds", "rds"} {
		m.Rejected[x] = t.gauges("pilot_xds_"+x+"_reject", "1 for each proxy whose last response of the type was refused.", "node", "err")
	}
	m.StandingRejects = t.gauge("meshpilot_rejects_standing", "Refusals since which the proxy has taken no later response of the type.")
	m.Quarantined = t.gauge("meshpilot_quarantined_resources", "Resources withheld from proxies, and EnvoyFilters left out of them, because proxies refused them and none accepted them.")
	m.Late = t.counters("meshpilot_xds_late", "Responses sent although the proxy had not shown in time that it has the clusters they lead to, by type.", "type")
	m.ExpiredNonces = t.counters("pilot_xds_expired_nonce", "Requests with the nonce of an older response, by type.", "type")
	m.InternalErrors = t.counter("pilot_total_xds_internal_errors", "Recovered panics, and resources that broke a rule of ours.")
	m.Panics = t.counters("meshpilot_panics_total", "Recovered panics, by component: ingest, converter, snapshot, source, xds, generator, grpc, http, webhook, task.", "component")
	m.WriteTimeouts = t.counter("pilot_xds_write_timeout", "Streams ended because a response could not be written in time.")
	t.gaugeFunc("pilot_xds_recv_max", "Size of the largest request so far, in bytes.", func() float64 { return float64(m.received.Load()) })
}

// times are how long things take, in seconds.
func (m *Metrics) times(t *metricTable) {
	proxy := []float64{.005, .01, .05, .1, .5, 1, 3, 5, 10, 20, 30}
	m.Convergence = t.histogram("pilot_proxy_convergence_time", "Time from a change to its acknowledgement by a proxy.", proxy)
	m.QueueTime = t.histogram("pilot_proxy_queue_time", "Time that a proxy's update was ready before the proxy could take it.", proxy)
	m.Debounce = t.histogram("pilot_debounce_time", "Time for which changes were gathered into one push.", []float64{.001, .01, .1, 1, 3, 5, 10, 20, 30})
	m.SnapshotTime = t.histogram("pilot_pushcontext_init_seconds", "Time to take a change into the snapshot of the mesh.", []float64{.0001, .001, .01, .1, .5, 1, 3, 5})
	m.PushTime = t.histograms("pilot_xds_push_time", "Time to make the resources of a type for one class of proxies.",
		[]float64{.0001, .001, .01, .1, 1, 3, 5, 10, 20, 30}, "type")
	m.SendTime = t.histogram("pilot_xds_send_time", "Time to write a response.", []float64{.001, .01, .1, 1, 3, 5, 10, 20, 30})
}

// inputs are what came in, and what it led to.
func (m *Metrics) inputs(t *metricTable) {
	m.InboundUpdates = t.counters("pilot_inbound_updates", "Events taken in: config, svc, svcdelete, eds.", "type")
	m.ConfigEvents = t.counters("pilot_k8s_cfg_events", "Events about config objects, by kind and event (add, update, delete).", "type", "event")
	m.Triggers = t.counters("pilot_push_triggers", "Pushes, by what caused them: global, service, config, endpoint, proxy.", "type")
	m.RejectedConfigs = t.counters("pilot_total_rejected_configs", "How often an object, or a part of it, went out of use because something is wrong with it.", "type", "name")
}

// model is how healthy the mesh is that proxies are told of.
func (m *Metrics) model(t *metricTable) {
	m.Services = t.gauge("pilot_services", "Services known.")
	m.VirtServices = t.gauge("pilot_virt_services", "VirtualServices known.")
	m.NoIP = t.gauge("pilot_no_ip", "Connected proxies at whose addresses no workload and no endpoint is known.")
	m.EndpointsNotReady = t.gauge("pilot_endpoint_not_ready", "Endpoints that are known and not healthy.")
	m.NoInstances = t.gauge("pilot_eds_no_instances", "Services without any endpoint, of those whose endpoints proxies are told.")
	m.DNSWithoutEndpoints = t.gauge("pilot_dns_cluster_without_endpoints", "Services without any endpoint, of those that proxies resolve by DNS.")
	m.DuplicateDomains = t.gauge("pilot_vservice_dup_domain", "Hosts that more than one VirtualService of one visibility claims for sidecars.")
	m.DuplicateSubsets = t.gauge("pilot_destrule_subsets", "Hosts for which a subset is defined more than once in one namespace.")
	m.OutboundConflicts = t.gauge("pilot_conflict_outbound_listener_tcp_over_current_tcp",
		"Services and rules that do not get what they ask for at a connected proxy because others have the place.")
	m.ProblemErrors = t.gauge("meshpilot_problem_errors", "Objects, or parts of them, that are not in use because something is wrong with them.")
	m.PendingEndpoints = t.gauge("pilot_k8s_endpoints_pending_pod", "Addresses in EndpointSlices that are held back because their pods are not known yet.")
	m.ProblemWarnings = t.gauge("meshpilot_problem_warnings", "Objects of which not everything is honoured.")
}

// cost is what the work of translation comes to: it should follow what changed, and not how many proxies there are.
func (m *Metrics) cost(t *metricTable) {
	m.Classes = t.gauge("meshpilot_proxy_classes", "Different classes of proxies connected: all proxies of one class are sent the same.")
	m.ConfigBytes = t.gauges("meshpilot_config_bytes", "Bytes of what connected proxies have: each resource once (unique), and for each proxy (total).", "kind")
	m.CacheSize = t.gauge("xds_cache_size", "Different resources that connected proxies have.")
	m.generated = t.totals("meshpilot_generated_resources_total", "Resources that were asked for, once for each class of proxies, by type.", "type")
	m.translated = t.totals("meshpilot_translated_resources_total", "Resources that were really translated, by type; the others were there already.", "type")
	m.cacheReads = t.totals("xds_cache_reads", "Resources asked for that were there already (hit), and that had to be made (miss).", "type")
}

// about is which program this is.
func (m *Metrics) about(t *metricTable) {
	b := ReadBuild()
	start := time.Now()
	t.gauges("pilot_info", "Version and build of the control plane.", "version").WithLabelValues(b.Version + "-" + b.GitRevision + "-" + b.BuildStatus).Set(1)
	t.gauges("istio_build", "How the component was built.", "component", "tag").WithLabelValues("pilot", b.Version).Set(1)
	t.gaugeFunc("istiod_uptime_seconds", "Seconds since the start.", func() float64 { return time.Since(start).Seconds() })
}
