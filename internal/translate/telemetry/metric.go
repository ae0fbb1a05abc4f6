package telemetry

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// metric is one of Istio's standard metrics.
type metric struct {
	is telemetry.MetricSelector_IstioMetric
	// name is the name in Prometheus.
	name string
	// short is the name in the configuration of proxies, which every filter chain contains. It is
	// "" for a metric with its full name, or a metric derived from another (see metric_logger.go).
	short string
	tcp   bool
}

// standardMetrics returns the metrics that proxies have, in the order of the API. Counts of gRPC
// messages are missing, because Envoy has them only per cluster.
func standardMetrics() []metric {
	return []metric{
		{telemetry.MetricSelector_REQUEST_COUNT, "istio_requests_total", "", false},
		{telemetry.MetricSelector_REQUEST_DURATION, "istio_request_duration_milliseconds", "", false},
		{telemetry.MetricSelector_REQUEST_SIZE, "istio_request_bytes", "istio_rx", false},
		{telemetry.MetricSelector_RESPONSE_SIZE, "istio_response_bytes", "istio_tx", false},
		{telemetry.MetricSelector_TCP_OPENED_CONNECTIONS, "istio_tcp_connections_opened_total", "", true},
		{telemetry.MetricSelector_TCP_CLOSED_CONNECTIONS, "istio_tcp_connections_closed_total", "", true},
		{telemetry.MetricSelector_TCP_SENT_BYTES, "istio_tcp_sent_bytes_total", "istio_tcp_tx", true},
		{telemetry.MetricSelector_TCP_RECEIVED_BYTES, "istio_tcp_received_bytes_total", "istio_tcp_rx", true},
	}
}

// selectsMetric reports whether an override applies to the metric. A custom name is the metric's
// own, with or without "istio_". An override without a metric applies to all.
func selectsMetric(s *telemetry.MetricSelector, m metric) bool {
	switch x := s.GetMetricMatch().(type) {
	case *telemetry.MetricSelector_CustomMetric:
		return x.CustomMetric == m.name || "istio_"+x.CustomMetric == m.name
	case *telemetry.MetricSelector_Metric:
		return x.Metric == telemetry.MetricSelector_ALL_METRICS || x.Metric == m.is
	default:
		return true
	}
}

// tailored is a metric with the overrides of objects for a side.
type tailored struct {
	metric
	disabled bool
	// kinds adds a label for the kind of record: a connection was established, or ended.
	kinds bool
	// tags are the labels that are added, replaced or removed.
	tags map[string]*telemetry.MetricsOverrides_TagOverride
}

// applyOverrides applies to t the overrides of one entry that select the side and the metric, in
// their order. A later override of the same label wins; of two in one override, which have
// different names, the later name. disabled keeps the last value that is set.
func (t *tailored) applyOverrides(s side, list []*telemetry.MetricsOverrides) {
	for _, o := range list {
		if !s.matchesMode(o.GetMatch().GetMode()) || !selectsMetric(o.GetMatch(), t.metric) {
			continue
		}
		if o.GetDisabled() != nil {
			t.disabled = o.GetDisabled().GetValue()
		}
		for _, name := range slices.Sorted(maps.Keys(o.GetTagOverrides())) {
			if t.tags == nil {
				t.tags = map[string]*telemetry.MetricsOverrides_TagOverride{}
			}
			if label := config.LabelName(name); label != "" {
				t.tags[label] = o.GetTagOverrides()[name]
			}
		}
	}
}

// haveSameTags reports whether two metrics have equal tag overrides, so that one can be derived
// from the other. It returns false if either is nil.
func haveSameTags(a, b *tailored) bool {
	return a != nil && b != nil &&
		maps.EqualFunc(
			a.tags,
			b.tags,
			func(x, y *telemetry.MetricsOverrides_TagOverride) bool { return proto.Equal(x, y) },
		)
}

// findMetric returns a pointer into list to the first metric of the kind is, or nil if it is not
// there.
func findMetric(list []tailored, is telemetry.MetricSelector_IstioMetric) *tailored {
	if i := slices.IndexFunc(list, func(t tailored) bool { return t.is == is }); i >= 0 {
		return &list[i]
	}
	return nil
}
