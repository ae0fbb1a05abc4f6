package bootstrap

import (
	"fmt"

	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// tracer gives the cluster and the address that spans go to, "" for none.
func tracer(in Input) (cluster, address string) {
	t := in.Config.GetTracing()
	switch {
	case t.GetZipkin().GetAddress() != "":
		cluster, address = zipkinCluster, t.GetZipkin().GetAddress()
	case t.GetDatadog().GetAddress() != "":
		cluster, address = datadogCluster, t.GetDatadog().GetAddress()
	case t == nil && in.Config.GetZipkinAddress() != "":
		cluster, address = zipkinCluster, in.Config.GetZipkinAddress()
	}
	return cluster, withHostIP(address, in.HostIP)
}

// tracing is the tracer for listeners whose configuration names none.
func tracing(in Input) (*tracev3.Tracing, error) {
	switch in.Config.GetTracing().GetTracer().(type) {
	case *meshconfig.Tracing_Lightstep_, *meshconfig.Tracing_Stackdriver_, *meshconfig.Tracing_OpenCensusAgent_:
		return nil, fmt.Errorf(`proxy configuration field "tracing": Envoy has no %s tracer any more; use an extensionProvider (opentelemetry, zipkin, datadog)`,
			in.Config.GetTracing().ProtoReflect().WhichOneof(in.Config.GetTracing().ProtoReflect().Descriptor().Oneofs().ByName("tracer")).JSONName())
	}
	switch cluster, _ := tracer(in); cluster {
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

func provider(name string, config proto.Message) *tracev3.Tracing {
	return &tracev3.Tracing{Http: &tracev3.Tracing_Http{
		Name:       name,
		ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: packed(config)},
	}}
}
