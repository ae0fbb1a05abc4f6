package status

import (
	"bytes"
	"strings"
)

// The control plane has short names for metrics, since they are in the configuration of each of a proxy's filter chains. Other
// names are the ones that users know.
const (
	shortDurations   = "istio_ms"  // of requests; how many there were is what it has counted
	shortConnections = "istio_tcp" // one when a connection is made, one when it ends: "k" says which

	durationsMetric = "istio_request_duration_milliseconds"
	requestsMetric  = "istio_requests_total"
	openedMetric    = "istio_tcp_connections_opened_total"
	closedMetric    = "istio_tcp_connections_closed_total"
)

// longName gives the name that users know.
func longName(name string) string {
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

// declare takes "NAME TYPE", which stands before the lines of a metric.
func (l *labeler) declare(text string) {
	l.declared, l.kind, _ = strings.Cut(text, " ")
	l.current = nil
	if l.declared != shortConnections {
		l.current = l.family(longName(l.declared), l.kind)
	}
}

// add adds a line of Envoy's to the metrics that it is for.
func (l *labeler) add(metric, labels, bucket, value []byte) {
	x, known := l.expand(labels, bytes.HasPrefix(metric, []byte(shortConnections)))
	if string(metric) == shortConnections {
		if x.opened {
			l.family(openedMetric, l.kind).add(nil, known, nil, value)
		}
		if x.closed {
			l.family(closedMetric, l.kind).add(nil, known, nil, value)
		}
		return
	}
	suffix, ok := bytes.CutPrefix(metric, []byte(l.declared))
	if l.current == nil || !ok || len(suffix) > 0 && l.kind != "histogram" {
		l.family(longName(string(metric)), "").add(nil, known, bucket, value)
		return
	}
	l.current.add(suffix, known, bucket, value)
	if l.declared == shortDurations && string(suffix) == "_count" {
		l.family(requestsMetric, "counter").add(nil, known, nil, value)
	}
}
