package telemetry

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestBadInputCostsNothingElse compares the output for objects with mistakes with the output for
// the same objects without the invalid parts.
func TestBadInputCostsNothingElse(t *testing.T) {
	const mesh = `
extensionProviders:
- {name: gone, zipkin: {service: zipkin.nowhere.svc.cluster.local, port: 9411}}
- {name: old, lightstep: {service: a.b, port: 1}}
defaultProviders: {metrics: [prometheus]}
`
	tests := []struct{ name, bad, good string }{
		{
			"unknown provider of logs",
			"accessLogging: [{providers: [{name: nobody}, {name: envoy}]}]",
			"accessLogging: [{providers: [{name: envoy}]}]",
		},
		{
			"provider of another kind",
			"accessLogging: [{providers: [{name: prometheus}, {name: envoy}]}]",
			"accessLogging: [{providers: [{name: envoy}]}]",
		},
		{
			"unknown provider of metrics",
			"metrics: [{providers: [{name: nobody}, {name: prometheus}]}]", "metrics: [{}]",
		},
		{"unknown tracer", "tracing: [{providers: [{name: nobody}]}]", "tracing: [{disableSpanReporting: true}]"},
		{
			"tracer that Envoy has no more", "tracing: [{providers: [{name: old}]}]",
			"tracing: [{disableSpanReporting: true}]",
		},
		{
			"service that is not there", "tracing: [{providers: [{name: gone}]}]",
			"tracing: [{disableSpanReporting: true}]",
		},
		{"unknown metric", "metrics: [{overrides: [{match: {customMetric: x}, disabled: true}]}]", "metrics: [{}]"},
		{
			"metric that is not counted",
			"metrics: [{overrides: [{match: {metric: GRPC_REQUEST_MESSAGES}, disabled: true}]}]",
			"metrics: [{}]",
		},
		{
			"reserved tag",
			"metrics: [{overrides: [{tagOverrides: {standard: {value: request.host}}}]}]",
			"metrics: [{}]",
		},
	}
	for _, test := range tests {
		of := func(spec string) *Telemetry {
			text := "kind: Telemetry\nmetadata: {name: default, namespace: istio-system}\nspec: {" + spec + "}\n"
			return NewTable().For(fixture.New(t, []byte(text), []byte(mesh)).View(fixture.Proxy(t, []byte("{}"))))
		}
		bad, good := of(test.bad), of(test.good)
		for side, pair := range map[string][2]*Side{
			"client": {&bad.Client, &good.Client},
			"server": {&bad.Server, &good.Server},
		} {
			if !same(pair[0].HTTPLogs, pair[1].HTTPLogs) || !same(pair[0].TCPLogs, pair[1].TCPLogs) ||
				!proto.Equal(pair[0].Tracing, pair[1].Tracing) {
				t.Errorf("%s: other telemetry of the %s:\n%s\nwant\n%s", test.name, side,
					sideText(t, pair[0]), sideText(t, pair[1]))
			}
		}
	}
}
