package obs

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics is the control plane's metrics. Names and labels are those of Istio, which dashboards and alerts know; names that
// begin with meshpilot_ are ours.
type Metrics struct {
	Registry *prometheus.Registry

	// Clients is the connected proxies by version; Pushes the responses sent by type.
	Clients *prometheus.GaugeVec
	Pushes  *prometheus.CounterVec
	// Rejects counts NACKs by type; Rejected is 1 for each proxy and type whose last response was refused.
	Rejects  *prometheus.CounterVec
	Rejected map[string]*prometheus.GaugeVec // by short type
	// ExpiredNonces counts requests with the nonce of an older response, by type.
	ExpiredNonces  *prometheus.CounterVec
	InternalErrors prometheus.Counter
	WriteTimeouts  prometheus.Counter

	// Convergence is the time from a change to the acknowledgement by a proxy, QueueTime that from a change to the moment
	// a proxy's turn came, PushTime that of making one class's resources by type, SendTime that of writing one response.
	// All in seconds.
	Convergence prometheus.Histogram
	QueueTime   prometheus.Histogram
	PushTime    *prometheus.HistogramVec
	SendTime    prometheus.Histogram
	// Debounce is how long changes were gathered, in seconds.
	Debounce prometheus.Histogram
	// ConfigSize is the size of responses by type, in bytes.
	ConfigSize *prometheus.HistogramVec

	// Triggers counts pushes by what caused them, InboundUpdates events that came in, ConfigEvents config objects by kind.
	Triggers       *prometheus.CounterVec
	InboundUpdates *prometheus.CounterVec
	ConfigEvents   *prometheus.CounterVec
	Services       prometheus.Gauge
	VirtServices   prometheus.Gauge
	// RejectedConfigs counts objects that are not in use because something is wrong with them.
	RejectedConfigs prometheus.Gauge

	// Classes is how many different classes of proxies are connected.
	Classes prometheus.Gauge

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

// Computed shows a counter that somebody else counts: resources of a type that were really translated. Ten alike proxies
// cost as many as one.
func (m *Metrics) Computed(shortType string, count func() uint64) {
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "meshpilot_translated_resources_total", Help: "Resources really translated, by type.",
		ConstLabels: prometheus.Labels{"type": shortType},
	}, func() float64 { return float64(count()) }))
}

// NewMetrics makes the metrics with a registry of their own, in which those of the Go runtime and the process are too.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	m := &Metrics{Registry: r, Rejected: map[string]*prometheus.GaugeVec{}}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		r.MustRegister(g)
		return g
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		r.MustRegister(g)
		return g
	}
	times := func(name, help string, buckets ...float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	histograms := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{"type"})
		r.MustRegister(h)
		return h
	}

	m.Clients = gauges("pilot_xds", "Number of endpoints connected to this pilot using XDS.", "version")
	m.Pushes = counters("pilot_xds_pushes", "Responses sent to proxies, by type.", "type")
	m.Rejects = counters("pilot_total_xds_rejects", "Responses that proxies refused, by type.", "type")
	for _, t := range []string{"cds", "eds", "lds", "rds", "sds"} {
		m.Rejected[t] = gauges("pilot_xds_"+t+"_reject", "Proxies whose last response of the type was refused.", "node", "err")
	}
	m.ExpiredNonces = counters("pilot_xds_expired_nonce", "Requests with the nonce of an older response.", "type")
	m.InternalErrors = prometheus.NewCounter(prometheus.CounterOpts{Name: "pilot_total_xds_internal_errors", Help: "Errors inside the xDS server."})
	m.WriteTimeouts = prometheus.NewCounter(prometheus.CounterOpts{Name: "pilot_xds_write_timeout", Help: "Streams ended because a response could not be written in time."})
	r.MustRegister(m.InternalErrors, m.WriteTimeouts)

	m.Convergence = times("pilot_proxy_convergence_time", "Seconds from a change to its acknowledgement by a proxy.", .01, .05, .1, .5, 1, 3, 5, 10, 20, 30)
	m.QueueTime = times("pilot_proxy_queue_time", "Seconds that a proxy waited for its turn.", .01, .05, .1, .5, 1, 3, 5, 10, 20, 30)
	m.SendTime = times("pilot_xds_send_time", "Seconds to write a response.", .01, .1, 1, 3, 5, 10, 20, 30)
	m.Debounce = times("pilot_debounce_time", "Seconds for which changes were gathered.", .01, .1, 1, 3, 5, 10, 20, 30)
	m.PushTime = histograms("pilot_xds_push_time", "Seconds to make the resources of a type for one class of proxies.", []float64{.0001, .001, .01, .1, 1, 3, 5, 10, 20, 30})
	m.ConfigSize = histograms("pilot_xds_config_size_bytes", "Size of responses in bytes.", []float64{1, 10_000, 1_000_000, 4_000_000, 10_000_000, 40_000_000})
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "pilot_xds_recv_max", Help: "The largest request, in bytes."},
		func() float64 { return float64(m.received.Load()) }))

	m.Triggers = counters("pilot_push_triggers", "Pushes, by what caused them.", "type")
	m.InboundUpdates = counters("pilot_inbound_updates", "Events taken in, by kind.", "type")
	m.ConfigEvents = counters("pilot_k8s_cfg_events", "Events about config objects.", "type", "event")
	m.Services = gauge("pilot_services", "Services known.")
	m.VirtServices = gauge("pilot_virt_services", "VirtualServices known.")
	m.RejectedConfigs = gauge("pilot_total_rejected_configs", "Config objects that are not in use.")
	m.Classes = gauge("meshpilot_proxy_classes", "Different classes of proxies connected.")

	m.about(r)
	return m
}

// about adds what says which program this is and how it does.
func (m *Metrics) about(r *prometheus.Registry) {
	b := ReadBuild()
	start := time.Now()
	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "pilot_info", Help: "Version of the control plane."}, []string{"version"})
	info.WithLabelValues(b.Version).Set(1)
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "istio_build", Help: "How the component was built."}, []string{"component", "tag"})
	build.WithLabelValues("pilot", b.Version).Set(1)
	r.MustRegister(info, build,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "istiod_uptime_seconds", Help: "Seconds since the start."},
			func() float64 { return time.Since(start).Seconds() }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}
