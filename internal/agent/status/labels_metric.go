package status

import (
	"bytes"
	"strings"
)

// Short names of metrics that the control plane configures, to keep the configuration of each
// filter chain small.
const (
	shortDurations   = "istio_ms"  // of requests; its count becomes the number of requests
	shortConnections = "istio_tcp" // one when a connection opens, one when it closes; see field "k"

	durationsMetric = "istio_request_duration_milliseconds"
	requestsMetric  = "istio_requests_total"
	openedMetric    = "istio_tcp_connections_opened_total"
	closedMetric    = "istio_tcp_connections_closed_total"
)

// istioName returns Istio's name of a metric with a short name, and any other name unchanged.
func istioName(name string) string {
	switch name {
	case shortDurations:
		return durationsMetric
	case "istio_rx":
		return "istio_request_bytes"
	case "istio_tx":
		return "istio_response_bytes"
	case "istio_tcp_rx":
		return "istio_tcp_received_bytes_total"
	case "istio_tcp_tx":
		return "istio_tcp_sent_bytes_total"
	default:
		return name
	}
}

// startMetric records "NAME TYPE", the declaration that precedes the lines of a metric. It sets
// l.current to the metric under Istio's name, or to nil for connections, which become two metrics.
func (l *labeler) startMetric(text string) {
	l.declared, l.kind, _ = strings.Cut(text, " ")
	l.current = nil
	if l.declared != shortConnections {
		l.current = l.familyNamed(istioName(l.declared), l.kind)
	}
}

// addLine adds a line of Envoy's, with its labels expanded, to the metrics to which it contributes.
// A count of connections goes to the opened ones, the closed ones, both or none, by its record. A
// count of durations is also the count of requests. A line that is not of the declared metric is
// added under Istio's name, without a TYPE.
func (l *labeler) addLine(metric, labels, bucket, value []byte) {
	x, known := l.expandLabels(labels, bytes.HasPrefix(metric, []byte(shortConnections)))
	if string(metric) == shortConnections {
		if x.opened {
			l.familyNamed(openedMetric, l.kind).addLine(nil, known, nil, value)
		}
		if x.closed {
			l.familyNamed(closedMetric, l.kind).addLine(nil, known, nil, value)
		}
		return
	}
	suffix, ok := bytes.CutPrefix(metric, []byte(l.declared))
	if l.current == nil || !ok || len(suffix) > 0 && l.kind != "histogram" {
		l.familyNamed(istioName(string(metric)), "").addLine(nil, known, bucket, value)
		return
	}
	l.current.addLine(suffix, known, bucket, value)
	if l.declared == shortDurations && string(suffix) == "_count" {
		l.familyNamed(requestsMetric, "counter").addLine(nil, known, nil, value)
	}
}
