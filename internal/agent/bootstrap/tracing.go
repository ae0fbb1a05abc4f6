package bootstrap

import (
	"errors"

	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// tracer is the cluster and the address that spans go to, and the field that says so; all empty for none.
type tracer struct{ cluster, address, field string }

func tracerOf(config *meshconfig.ProxyConfig) tracer {
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

// tracing is the tracer for listeners whose configuration names none.
func tracing(in Input) (*tracev3.Tracing, error) {
	switch in.Config.GetTracing().GetTracer().(type) {
	case *meshconfig.Tracing_Lightstep_:
		return nil, gone("lightstep")
	case *meshconfig.Tracing_Stackdriver_:
		return nil, gone("stackdriver")
	case *meshconfig.Tracing_OpenCensusAgent_:
		return nil, gone("openCensusAgent")
	}
	switch cluster := tracerOf(in.Config).cluster; cluster {
	case zipkinCluster:
		return provider("envoy.tracers.zipkin", &tracev3.ZipkinConfig{
			CollectorCluster:         cluster,
			CollectorEndpoint:        "/api/v2/spans",
			CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
			TraceId_128Bit:           true,
			// A server span of its own on each side: with a shared one, the two proxies' spans overwrite each other.
			SharedSpanContext: wrapperspb.Bool(false),
		}), nil
	case datadogCluster:
		return provider("envoy.tracers.datadog", &tracev3.DatadogConfig{CollectorCluster: cluster, ServiceName: in.Node.Cluster}), nil
	default:
		return nil, nil
	}
}

func gone(name string) error {
	return fieldError("tracing."+name, errors.New("there is no such tracer in Envoy any more; use an extensionProvider (opentelemetry, zipkin or datadog)"))
}

func provider(name string, config proto.Message) *tracev3.Tracing {
	return &tracev3.Tracing{Http: &tracev3.Tracing_Http{
		Name:       name,
		ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: packed(config)},
	}}
}
