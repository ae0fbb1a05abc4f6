package telemetry

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	telemetry "istio.io/api/telemetry/v1alpha1"
)

// metric is one of Istio's standard metrics.
type metric struct {
	is telemetry.MetricSelector_IstioMetric
	// name is the one in Prometheus.
	name string
	// short is what it is called in the configuration of proxies, of which there is one for each filter chain; "" for what
	// is there under its name, or made of another one (see metric_logger.go).
	short string
	tcp   bool
}

// metrics are those that proxies have, in the order of the API. The counts of gRPC messages are not among them: Envoy has
// them for whole clusters only.
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

// selects says whether an override is for the metric. Free names are the metrics' own, with or without "istio_".
func selects(s *telemetry.MetricSelector, m metric) bool {
	switch x := s.GetMetricMatch().(type) {
	case *telemetry.MetricSelector_CustomMetric:
		return x.CustomMetric == m.name || "istio_"+x.CustomMetric == m.name
	case *telemetry.MetricSelector_Metric:
		return x.Metric == telemetry.MetricSelector_ALL_METRICS || x.Metric == m.is
	default:
		return true
	}
}

// tailored is a metric as objects have it for a side.
type tailored struct {
	metric
	disabled bool
	// kinds says that records are counted apart by what they are of: a connection that is made, or one that ends.
	kinds bool
	// tags are the tags that are added, replaced or removed.
	tags map[string]*telemetry.MetricsOverrides_TagOverride
}

// over puts the overrides of one entry over what was said before, in their order.
func (t *tailored) over(s side, list []*telemetry.MetricsOverrides) {
	for _, o := range list {
		if !s.plays(o.GetMatch().GetMode()) || !selects(o.GetMatch(), t.metric) {
			continue
		}
		if o.GetDisabled() != nil {
			t.disabled = o.GetDisabled().GetValue()
		}
		for name, tag := range o.GetTagOverrides() {
			if t.tags == nil {
				t.tags = map[string]*telemetry.MetricsOverrides_TagOverride{}
			}
			t.tags[name] = tag
		}
	}
}

// alike says whether two metrics are there and have the same tags, so that one can be made of the other.
func alike(a, b *tailored) bool {
	return a != nil && b != nil && maps.EqualFunc(a.tags, b.tags, func(x, y *telemetry.MetricsOverrides_TagOverride) bool { return proto.Equal(x, y) })
}

// find gives the metric of a list; nil if it is not there.
func find(list []tailored, is telemetry.MetricSelector_IstioMetric) *tailored {
	if i := slices.IndexFunc(list, func(t tailored) bool { return t.is == is }); i >= 0 {
		return &list[i]
	}
	return nil
}
