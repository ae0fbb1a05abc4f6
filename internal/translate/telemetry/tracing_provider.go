package telemetry

import (
	"cmp"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

const (
	zipkinPath = "/api/v2/spans"
	// collectorTimeout is the default timeout of requests to a collector. That of Zipkin is Envoy's
	// own.
	collectorTimeout, zipkinTimeout = 3 * time.Second, 5 * time.Second
	// datadogService is the name that Datadog shows if the proxy's environment has no DD_SERVICE,
	// which pilot-agent sets.
	datadogService = "istio-proxy"
)

// newTracer returns the tracer with a name and config.
func newTracer(name string, config proto.Message) *tracev3.Tracing_Http {
	return &tracev3.Tracing_Http{
		Name:       name,
		ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: resource.Pack(config)},
	}
}

// zipkin returns a tracer that posts spans to the Zipkin collector at. If the provider has a
// timeout or headers, it uses an HTTP service with both; the default timeout is zipkinTimeout.
// Otherwise it refers to the cluster, with Envoy's own timeout. Trace IDs have 128 bits by default,
// and client and server spans are not shared.
func zipkin(
	p *meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider,
	at service,
	headers []*corev3.HeaderValue,
) *tracev3.Tracing_Http {
	path := cmp.Or(p.GetPath(), zipkinPath)
	c := &tracev3.ZipkinConfig{
		CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
		TraceId_128Bit:           !p.GetEnable_64BitTraceId(),
		// Each side has its own server span: shared spans of the two proxies would overwrite each
		// other.
		SharedSpanContext: wrapperspb.Bool(false),
	}
	const both = meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider_USE_B3_WITH_W3C_PROPAGATION
	if p.GetTraceContextOption() == both {
		c.TraceContextOption = tracev3.ZipkinConfig_USE_B3_WITH_W3C_PROPAGATION
	}
	if p.GetTimeout() != nil || len(p.GetHeaders()) > 0 {
		timeout := p.GetTimeout()
		if timeout == nil {
			timeout = durationpb.New(zipkinTimeout)
		}
		c.CollectorService = httpCollector(at, path, timeout, headers)
	} else {
		c.CollectorCluster, c.CollectorEndpoint, c.CollectorHostname = at.cluster, path, at.host
	}
	return newTracer("envoy.tracers.zipkin", c)
}

// datadog returns a tracer that sends spans to the Datadog agent at.
func datadog(at service) *tracev3.Tracing_Http {
	return newTracer("envoy.tracers.datadog", &tracev3.DatadogConfig{
		CollectorCluster: at.cluster, CollectorHostname: at.host, ServiceName: datadogService,
	})
}

// skywalking returns a tracer that sends spans to the SkyWalking collector at. It sets neither
// service nor instance: Envoy takes them from its node.
func skywalking(
	p *meshconfig.MeshConfig_ExtensionProvider_SkyWalkingTracingProvider,
	at service,
) *tracev3.Tracing_Http {
	c := &tracev3.SkyWalkingConfig{GrpcService: grpcService(at), ClientConfig: new(tracev3.ClientConfig)}
	if p.GetAccessToken() != "" {
		c.ClientConfig.BackendTokenSpecifier = &tracev3.ClientConfig_BackendToken{BackendToken: p.GetAccessToken()}
	}
	return newTracer("envoy.tracers.skywalking", c)
}

// httpCollector returns the service that spans are posted to; the Host header is its host without
// the port. A missing slash of the path is added, and a timeout below 1 ms, or nil, is replaced by
// collectorTimeout.
func httpCollector(
	at service,
	path string,
	timeout *durationpb.Duration,
	headers []*corev3.HeaderValue,
) *corev3.HttpService {
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if timeout == nil || timeout.AsDuration() < time.Millisecond {
		timeout = durationpb.New(collectorTimeout)
	}
	s := &corev3.HttpService{HttpUri: &corev3.HttpUri{
		Uri:              "http://" + at.host + path,
		HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: at.cluster},
		Timeout:          timeout,
	}}
	for _, h := range headers {
		s.RequestHeadersToAdd = append(s.RequestHeadersToAdd, &corev3.HeaderValueOption{
			Header:       h,
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return s
}
