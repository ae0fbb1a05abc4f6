package main

import (
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/discovery"
)

// TestTraces: pushes are traced if a collector has an address and nothing disables it, by the
// protocol of traces, or else by the general one.
func TestTraces(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 "
	for env, want := range map[string]string{
		"":       "",
		endpoint: "http/protobuf",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://collector:4318/x":                                   "http/protobuf",
		endpoint + "OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                                  "grpc",
		endpoint + "OTEL_EXPORTER_OTLP_PROTOCOL=grpc OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf": "http/protobuf",
		endpoint + "OTEL_SDK_DISABLED=true":                                                            "",
		endpoint + "OTEL_TRACES_EXPORTER=none":                                                         "",
		endpoint + "OTEL_TRACES_EXPORTER=zipkin":                                                       `error OTEL_TRACES_EXPORTER "zipkin"`,
		endpoint + "OTEL_EXPORTER_OTLP_PROTOCOL=http/json":                                             `error OTEL_EXPORTER_OTLP_PROTOCOL "http/json"`,
		"MESHPILOT_SLOW_PUSH=soon":                                                                     `error MESHPILOT_SLOW_PUSH "soon"`,
	} {
		e := environment{lookup: func(name string) (string, bool) {
			for pair := range strings.FieldsSeq(env) {
				if value, found := strings.CutPrefix(pair, name+"="); found {
					return value, true
				}
			}
			return "", false
		}}
		o := discovery.Defaults()
		e.applyPushes(&o.Push)
		switch text, fails := strings.CutPrefix(want, "error "); {
		case fails && (e.err == nil || !strings.HasPrefix(e.err.Error(), text)):
			t.Errorf("%s: error %v, want %s", env, e.err, text)
		case !fails && (e.err != nil || o.Push.TraceProtocol != want || o.Push.Slow != 10*time.Second):
			t.Errorf("%s: %+v, %v", env, o.Push, e.err)
		}
	}
}
