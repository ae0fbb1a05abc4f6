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
	// statsLog is a name for readers: Envoy goes by the type of the configuration.
	statsLog = "stats"
	// maxSeries is how many series a filter chain has of counters, and how many of histograms. Envoy drops what is beyond, and goes on
	// counting the others: a client that makes up labels must not be able to fill the proxy's memory.
	maxSeries = 10000
)

// Loggers are in each filter chain of each proxy, so they say as little as the agent can make everything of. What it makes
// several metrics of has a name of its own:
const (
	// durations is istio_request_duration_milliseconds, whose count is istio_requests_total too.
	durations = "istio_ms"
	// connections has a record of each connection that is made and of each that ends: istio_tcp_connections_opened_total and
	// istio_tcp_connections_closed_total.
	connections = "istio_tcp"
)

// httpMetrics is the logger that counts requests when they end.
func httpMetrics(s side, list []tailored) *accesslogv3.AccessLog {
	c := newStats()
	counted := alike(find(list, telemetry.MetricSelector_REQUEST_COUNT), find(list, telemetry.MetricSelector_REQUEST_DURATION))
	for _, t := range list {
		switch t.is {
		case telemetry.MetricSelector_REQUEST_DURATION:
			if counted {
				t.short = durations
			}
			c.histogram(s, t, statsv3.Config_Histogram_Milliseconds, "%DURATION%")
		case telemetry.MetricSelector_REQUEST_SIZE:
			c.histogram(s, t, statsv3.Config_Histogram_Bytes, "%BYTES_RECEIVED%")
		case telemetry.MetricSelector_RESPONSE_SIZE:
			c.histogram(s, t, statsv3.Config_Histogram_Bytes, "%BYTES_SENT%")
		default:
			if !counted {
				c.counter(s, t, "")
			}
		}
	}
	return c.log(nil)
}

// tcpMetrics are the loggers that count connections, when they are made and when they end: one, if both are counted with the
// same labels. A connection that is made has no bytes yet, so it does no harm that they are counted then too.
// One that could not be made was opened all the same, by the client: it counts as both when it ends, which its flags say.
func tcpMetrics(s side, list []tailored) []*accesslogv3.AccessLog {
	opened, closed := find(list, telemetry.MetricSelector_TCP_OPENED_CONNECTIONS), find(list, telemetry.MetricSelector_TCP_CLOSED_CONNECTIONS)
	if !alike(opened, closed) || opened.tags["response_flags"] != nil {
		return apart(s, list)
	}
	c := newStats()
	for _, t := range list {
		switch t.is {
		case telemetry.MetricSelector_TCP_OPENED_CONNECTIONS:
			t.short, t.kinds = connections, true
			c.counter(s, t, "")
		case telemetry.MetricSelector_TCP_CLOSED_CONNECTIONS:
		default:
			c.counter(s, t, bytesOf(t))
		}
	}
	return []*accesslogv3.AccessLog{c.log(nil)}
}

// apart are the loggers where connections that are made are counted otherwise than those that end.
func apart(s side, list []tailored) []*accesslogv3.AccessLog {
	opened, ended := newStats(), newStats()
	for _, t := range list {
		if t.is == telemetry.MetricSelector_TCP_OPENED_CONNECTIONS {
			opened.counter(s, t, "")
		} else {
			ended.counter(s, t, bytesOf(t))
		}
	}
	var logs []*accesslogv3.AccessLog
	if len(opened.Counters) > 0 {
		logs = append(logs, opened.log(anyOf(logTypes(dataaccesslogv3.AccessLogType_TcpUpstreamConnected), allOf(onEnd(), neverConnected()))))
	}
	if len(ended.Counters) > 0 {
		logs = append(logs, ended.log(onEnd()))
	}
	return logs
}

// bytesOf is the format of what a metric counts; "" where it is records.
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

func anyOf(filters ...*accesslogv3.AccessLogFilter) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{OrFilter: &accesslogv3.OrFilter{Filters: filters}}}
}

func onEnd() *accesslogv3.AccessLogFilter {
	return logTypes(dataaccesslogv3.AccessLogType_TcpConnectionEnd)
}

// neverConnected are the connections that led to no upstream one.
func neverConnected() *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
		// UF failed, UH no healthy endpoint, UO too many, NC no cluster, NR no route, URX all attempts failed.
		ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: []string{"UF", "UH", "UO", "NC", "NR", "URX"}},
	}}
}

// stats is the configuration of a logger that counts.
type stats struct{ *statsv3.Config }

func newStats() stats { return stats{new(statsv3.Config)} }

// counter counts by a value, or by one for each record.
func (c stats) counter(s side, t tailored, value string) {
	counter := &statsv3.Config_Counter{Stat: stat(s, t), ValueFormat: value}
	if value == "" {
		counter.ValueFixed = wrapperspb.UInt64(1)
	}
	c.Counters = append(c.Counters, counter)
}

func (c stats) histogram(s side, t tailored, unit statsv3.Config_Histogram_Unit, value string) {
	c.Histograms = append(c.Histograms, &statsv3.Config_Histogram{Stat: stat(s, t), Unit: unit, ValueFormat: value})
}

func stat(s side, t tailored) *statsv3.Config_Stat {
	return &statsv3.Config_Stat{Name: cmp.Or(t.short, t.name), Tags: tags(s, t)}
}

// log is the logger, with a scope of its own: with one that is shared by name, Envoy 1.40 crashes when it ends.
func (c stats) log(filter *accesslogv3.AccessLogFilter) *accesslogv3.AccessLog {
	c.StatsScope = &typev3.Scope{EnableEviction: true}
	if len(c.Counters) > 0 {
		c.StatsScope.MaxCounters = wrapperspb.UInt32(maxSeries)
	}
	if len(c.Histograms) > 0 {
		c.StatsScope.MaxHistograms = wrapperspb.UInt32(maxSeries)
	}
	return &accesslogv3.AccessLog{
		Name: statsLog, Filter: filter, ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: resource.Pack(c.Config)},
	}
}
