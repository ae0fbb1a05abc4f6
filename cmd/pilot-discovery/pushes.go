package main

import (
	"cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/pushtrace"
	"github.com/meshpilot/meshpilot/internal/discovery/options"
)

// applyPushes reads how fast proxies are served, and how pushes are logged and traced
// (applyTraces). Unset variables keep p's values, but Throttle becomes 0; a fraction in it is cut
// off. Invalid values are errors of e.
func (e *environment) applyPushes(p *options.Push) {
	e.setFloat("MESHPILOT_REBALANCE_PER_HOUR", &p.RebalancePerHour)
	throttle := 0.0
	e.setFloat("PILOT_PUSH_THROTTLE", &throttle)
	p.Throttle = int(throttle)
	e.setDuration("MESHPILOT_SLOW_PUSH", &p.Slow)
	e.applyTraces(p)
}

// applyTraces sets the protocol of traces if the address of a collector is set and traces are not
// disabled. The protocol is that for traces, or else the general one, or else HTTP. Another
// exporter than otlp and an unknown protocol are errors. OpenTelemetry's library reads the address
// itself, and all other variables of its own.
func (e *environment) applyTraces(p *options.Push) {
	endpoint, exporter, general, own := "", "otlp", "", ""
	e.setText("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)
	e.setText("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint)
	e.setText("OTEL_TRACES_EXPORTER", &exporter)
	e.setText("OTEL_EXPORTER_OTLP_PROTOCOL", &general)
	e.setText("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", &own)
	if e.boolOr("OTEL_SDK_DISABLED", false) || endpoint == "" || exporter == "none" {
		return
	}
	if exporter != "otlp" {
		e.addError("OTEL_TRACES_EXPORTER", exporter, "want otlp or none")
	}
	protocol := cmp.Or(own, general, pushtrace.HTTP)
	if protocol != pushtrace.HTTP && protocol != pushtrace.GRPC {
		e.addError("OTEL_EXPORTER_OTLP_PROTOCOL", protocol, "want "+pushtrace.GRPC+" or "+pushtrace.HTTP)
	}
	p.TraceProtocol = protocol
}
