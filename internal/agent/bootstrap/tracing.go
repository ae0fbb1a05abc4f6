package bootstrap

import (
	"errors"

	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// tracer holds the cluster and address that receive spans, and the ProxyConfig field of the
// address. It is empty if there is none.
type tracer struct{ cluster, address, field string }

// newTracer returns the tracer of ProxyConfig, if that is Zipkin or Datadog with an address,
// otherwise the zero value.
func newTracer(config *meshconfig.ProxyConfig) tracer {
	t := config.GetTracing()
	switch {
	case t.GetZipkin().GetAddress() != "":
		return tracer{zipkinCluster, t.GetZipkin().GetAddress(), "tracing.zipkin.address"}
	case t.GetDatadog().GetAddress() != "":
		return tracer{datadogCluster, t.GetDatadog().GetAddress(), "tracing.datadog.address"}
	default:
		return tracer{}
	}
}

// tracingConfig returns Zipkin's or Datadog's configuration as the default tracer, for listeners
// whose configuration names none. It returns nil if newTracer finds none. Lightstep, Stackdriver
// and the OpenCensus agent, which Envoy no longer supports, are errors.
func tracingConfig(in Input) (*tracev3.Tracing, error) {
	switch in.Config.GetTracing().GetTracer().(type) {
	case *meshconfig.Tracing_Lightstep_:
		return nil, removedTracer("lightstep")
	case *meshconfig.Tracing_Stackdriver_:
		return nil, removedTracer("stackdriver")
	case *meshconfig.Tracing_OpenCensusAgent_:
		return nil, removedTracer("openCensusAgent")
	}
	switch cluster := newTracer(in.Config).cluster; cluster {
	case zipkinCluster:
		return tracingProvider("envoy.tracers.zipkin", &tracev3.ZipkinConfig{
			CollectorCluster:         cluster,
			CollectorEndpoint:        "/api/v2/spans",
			CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
			TraceId_128Bit:           true,
			// A separate server span per side: with a shared span, the two proxies' spans overwrite
			// each other.
			SharedSpanContext: wrapperspb.Bool(false),
		}), nil
	case datadogCluster:
		return tracingProvider("envoy.tracers.datadog",
			&tracev3.DatadogConfig{CollectorCluster: cluster, ServiceName: in.Node.Cluster}), nil
	default:
		return nil, nil
	}
}

// removedTracer returns the error for a tracer that Envoy no longer supports.
func removedTracer(name string) error {
	return fieldError("tracing."+name, errors.New("this tracer was removed from Envoy; "+
		"use an extensionProvider (opentelemetry, zipkin or datadog)"))
}

// tracingProvider returns the tracing config with the tracer name and its config.
func tracingProvider(name string, config proto.Message) *tracev3.Tracing {
	return &tracev3.Tracing{Http: &tracev3.Tracing_Http{
		Name:       name,
		ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: mustPack(config)},
	}}
}
