package telemetry

import (
	"cmp"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	dataaccesslogv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"google.golang.org/protobuf/types/known/wrapperspb"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

const (
	// statsLog is for readers: Envoy identifies a logger by the type of its configuration.
	statsLog = "stats"
	// maxSeries limits the series of counters, and of histograms, of a filter chain. Envoy drops
	// further series and continues to count the others. So a client with invented labels cannot
	// exhaust the proxy's memory.
	maxSeries = 10000
)

// Every filter chain of every proxy contains the loggers, so they record the minimum from which the
// agent can derive all metrics. A record from which it derives several metrics has its own name:
const (
	// durations is istio_request_duration_milliseconds; its count is istio_requests_total.
	durations = "istio_ms"
	// connections has a record of each connection when it is established and when it ends:
	// istio_tcp_connections_opened_total and istio_tcp_connections_closed_total.
	connections = "istio_tcp"
)

// httpMetrics returns the logger that counts requests when they end; durations and sizes are
// histograms. If count and duration have the same labels, the histogram of durations contains the
// count too. Otherwise REQUEST_COUNT has a counter of its own.
func httpMetrics(s side, list []tailored) *accesslogv3.AccessLog {
	c := newStats()
	counted := haveSameTags(
		findMetric(list, telemetry.MetricSelector_REQUEST_COUNT),
		findMetric(list, telemetry.MetricSelector_REQUEST_DURATION),
	)
	for _, t := range list {
		switch t.is {
		case telemetry.MetricSelector_REQUEST_DURATION:
			if counted {
				t.short = durations
			}
			c.addHistogram(s, t, statsv3.Config_Histogram_Milliseconds, "%DURATION%")
		case telemetry.MetricSelector_REQUEST_SIZE:
			c.addHistogram(s, t, statsv3.Config_Histogram_Bytes, "%BYTES_RECEIVED%")
		case telemetry.MetricSelector_RESPONSE_SIZE:
			c.addHistogram(s, t, statsv3.Config_Histogram_Bytes, "%BYTES_SENT%")
		default:
			if !counted {
				c.addCounter(s, t, "")
			}
		}
	}
	return c.logger(nil)
}

// tcpMetrics returns the loggers of metrics of connections when they are established and when they
// end. It is one logger if the opened and closed counts exist and have the same tags, and
// response_flags is not overridden; otherwise separateMetrics applies. In one logger bytes are 0
// when a connection is established.
//
// A connection that failed was still opened by the client. It is counted as opened and closed when
// it ends, which its flags indicate.
func tcpMetrics(s side, list []tailored) []*accesslogv3.AccessLog {
	opened, closed := findMetric(
		list,
		telemetry.MetricSelector_TCP_OPENED_CONNECTIONS,
	), findMetric(list, telemetry.MetricSelector_TCP_CLOSED_CONNECTIONS)
	if !haveSameTags(opened, closed) || opened.tags["response_flags"] != nil {
		return separateMetrics(s, list)
	}
	c := newStats()
	for _, t := range list {
		switch t.is {
		case telemetry.MetricSelector_TCP_OPENED_CONNECTIONS:
			t.short, t.kinds = connections, true
			c.addCounter(s, t, "")
		case telemetry.MetricSelector_TCP_CLOSED_CONNECTIONS:
		default:
			c.addCounter(s, t, bytesOf(t))
		}
	}
	return []*accesslogv3.AccessLog{c.logger(nil)}
}

// separateMetrics returns the loggers if opened and closed connections have different labels: one
// when connections are established, or end without having been; one when they end. A logger without
// metrics is left out.
func separateMetrics(s side, list []tailored) []*accesslogv3.AccessLog {
	opened, ended := newStats(), newStats()
	for _, t := range list {
		if t.is == telemetry.MetricSelector_TCP_OPENED_CONNECTIONS {
			opened.addCounter(s, t, "")
		} else {
			ended.addCounter(s, t, bytesOf(t))
		}
	}
	var logs []*accesslogv3.AccessLog
	if len(opened.Counters) > 0 {
		logs = append(
			logs,
			opened.logger(anyOf(
				logTypes(dataaccesslogv3.AccessLogType_TcpUpstreamConnected),
				allOf(onEnd(), neverConnected()),
			)),
		)
	}
	if len(ended.Counters) > 0 {
		logs = append(logs, ended.logger(onEnd()))
	}
	return logs
}

// bytesOf returns the format of the value that a metric counts: %BYTES_SENT% or %BYTES_RECEIVED%
// for the two metrics of TCP bytes. It returns "" for all others, which count records.
func bytesOf(t tailored) string {
	switch t.is {
	case telemetry.MetricSelector_TCP_SENT_BYTES:
		return "%BYTES_SENT%"
	case telemetry.MetricSelector_TCP_RECEIVED_BYTES:
		return "%BYTES_RECEIVED%"
	default:
		return ""
	}
}

// anyOf returns a filter that matches if one of filters does.
func anyOf(filters ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{
		FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{Filters: filters}},
	}
}

// onEnd returns a filter of the log entries that TCP proxies write when a connection ends.
func onEnd() *accesslogv3.AccessLogFilter {
	return logTypes(dataaccesslogv3.AccessLogType_TcpConnectionEnd)
}

// neverConnected returns a filter of connections that had no upstream connection, by their response
// flags.
func neverConnected() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		// UF failed, UH no healthy endpoint, UO overflow, NC no cluster, NR no route, URX all
		// attempts failed.
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"UF", "UH", "UO", "NC", "NR", "URX"}},
	}}
}

// stats builds the configuration of a stats logger.
type stats struct{ *statsv3.Config }

// newStats returns stats without metrics.
func newStats() stats { return stats{new(statsv3.Config)} }

// addCounter adds a counter for t that adds up value, a format, or counts records if value is "".
func (c stats) addCounter(s side, t tailored, value string) {
	counter := &statsv3.Config_Counter{Stat: newStat(s, t), ValueFormat: value}
	if value == "" {
		counter.ValueFixed = wrapperspb.UInt64(1)
	}
	c.Counters = append(c.Counters, counter)
}

// addHistogram adds a histogram for t of value, a format.
func (c stats) addHistogram(s side, t tailored, unit statsv3.Config_Histogram_Unit, value string) {
	c.Histograms = append(c.Histograms, &statsv3.Config_Histogram{Stat: newStat(s, t), Unit: unit, ValueFormat: value})
}

// newStat returns the name of the metric t, its short one if it has one, with its tags for a side
// (metricTags).
func newStat(s side, t tailored) *statsv3.Config_Stat {
	return &statsv3.Config_Stat{Name: cmp.Or(t.short, t.name), Tags: metricTags(s, t)}
}

// logger returns the stats logger with the added metrics, for log entries that filter matches; nil
// matches all. It sets the scope of c: maxSeries counters and histograms, with eviction. Each
// logger has a scope of its own: with a shared scope, Envoy 1.40 crashes when the scope ends.
func (c stats) logger(filter *accesslogv3.AccessLogFilter) *accesslogv3.AccessLog {
	c.StatsScope = &typev3.Scope{EnableEviction: true}
	if len(c.Counters) > 0 {
		c.StatsScope.MaxCounters = wrapperspb.UInt32(maxSeries)
	}
	if len(c.Histograms) > 0 {
		c.StatsScope.MaxHistograms = wrapperspb.UInt32(maxSeries)
	}
	return &accesslogv3.AccessLog{
		Name: statsLog, Filter: filter, ConfigType: &accesslogv3.AccessLog_TypedConfig{
			TypedConfig: resource.Pack(c.Config),
		},
	}
}
