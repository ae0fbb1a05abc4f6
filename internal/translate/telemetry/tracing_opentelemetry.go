package telemetry

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	detectorsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/resource_detectors/v3"
	samplersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/samplers/v3"

	"google.golang.org/protobuf/proto"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// openTelemetry returns a tracer that sends spans to at by OTLP, over HTTP if configured, else
// gRPC, with the headers; sampler may be nil. It has no service name, which comes from
// OTEL_RESOURCE_ATTRIBUTES in the environment that pilot-agent sets.
func openTelemetry(
	p *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider,
	at service,
	headers []*corev3.HeaderValue,
	sampler *corev3.TypedExtensionConfig,
) *tracev3.Tracing_Http {
	c := &tracev3.OpenTelemetryConfig{
		ResourceDetectors: []*corev3.TypedExtensionConfig{newExtension("envoy.tracers.opentelemetry.resource_detectors.environment",
			new(detectorsv3.EnvironmentResourceDetectorConfig))},
		Sampler: sampler,
	}
	if p.GetResourceDetectors().GetDynatrace() != nil {
		c.ResourceDetectors = append(c.ResourceDetectors,
			newExtension("envoy.tracers.opentelemetry.resource_detectors.dynatrace",
				new(detectorsv3.DynatraceResourceDetectorConfig)))
	}
	if http := p.GetHttp(); http != nil {
		c.HttpService = httpCollector(at, http.GetPath(), http.GetTimeout(), headers)
		return newTracer("envoy.tracers.opentelemetry", c)
	}
	c.GrpcService = grpcService(at)
	if timeout := p.GetGrpc().GetTimeout(); timeout.AsDuration() > 0 {
		c.GrpcService.Timeout = timeout
	}
	c.GrpcService.InitialMetadata = headers
	return newTracer("envoy.tracers.opentelemetry", c)
}

// samplerOf returns the Dynatrace sampler of a provider, and adds its cluster to m.out.Clusters.
// The sampler calls its own httpService if set, otherwise defaultSamplingPath of the provider's
// service. ok is false if the provider has none or, with a Warning, the sampler's service does not
// exist.
func (m *builder) samplerOf(n named, p *provider) (config *corev3.TypedExtensionConfig, ok bool) {
	d := p.GetOpentelemetry().GetDynatraceSampler()
	if d == nil {
		return nil, false
	}
	api := d.GetHttpService()
	at := service{
		cluster: m.providers.services[p.GetName()].cluster,
		host:    p.GetOpentelemetry().GetService(),
	}
	path, http := defaultSamplingPath, p.GetOpentelemetry().GetHttp()
	if api != nil {
		at = m.providers.services[samplerName(p.GetName())]
		http = api.GetHttp()
		path = http.GetPath()
	}
	if at.cluster == "" {
		m.addWarning(n.origin, fmt.Sprintf("provider %q: the service of its sampler: %s", p.GetName(), at.fault))
		return nil, false
	}
	m.out.Clusters = append(m.out.Clusters, at.cluster)
	return newExtension("envoy.tracers.opentelemetry.samplers.dynatrace", &samplersv3.DynatraceSamplerConfig{
		Tenant: d.GetTenant(), ClusterId: d.GetClusterId(), RootSpansPerMinute: d.GetRootSpansPerMinute(),
		HttpService: httpCollector(at, path, http.GetTimeout(), m.headersOf(n, http.GetHeaders())),
	}), true
}

// defaultSamplingPath is the path of the sampling configuration in Dynatrace's API.
const defaultSamplingPath = "/api/v2/samplingConfiguration"

// newExtension returns the extension with a name and config.
func newExtension(name string, config proto.Message) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: resource.Pack(config)}
}
