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

// openTelemetry sends spans by OTLP, over HTTP if the provider says so, else gRPC. It names no service: the name comes from
// OTEL_RESOURCE_ATTRIBUTES, which pilot-agent sets for each proxy.
func openTelemetry(p *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider, at service, sampler *corev3.TypedExtensionConfig) *tracev3.Tracing_Http {
	c := &tracev3.OpenTelemetryConfig{
		ResourceDetectors: []*corev3.TypedExtensionConfig{extension("envoy.tracers.opentelemetry.resource_detectors.environment",
			new(detectorsv3.EnvironmentResourceDetectorConfig))},
		Sampler: sampler,
	}
	if p.GetResourceDetectors().GetDynatrace() != nil {
		c.ResourceDetectors = append(c.ResourceDetectors, extension("envoy.tracers.opentelemetry.resource_detectors.dynatrace",
			new(detectorsv3.DynatraceResourceDetectorConfig)))
	}
	if http := p.GetHttp(); http != nil {
		c.HttpService = httpCollector(at, http.GetPath(), http.GetTimeout(), http.GetHeaders())
		return tracer("envoy.tracers.opentelemetry", c)
	}
	c.GrpcService = grpcService(at)
	if timeout := p.GetGrpc().GetTimeout(); timeout.AsDuration() > 0 {
		c.GrpcService.Timeout = timeout
	}
	for _, h := range p.GetGrpc().GetInitialMetadata() {
		if name, value := header(h); name != "" {
			c.GrpcService.InitialMetadata = append(c.GrpcService.InitialMetadata, &corev3.HeaderValue{Key: name, Value: value})
		}
	}
	return tracer("envoy.tracers.opentelemetry", c)
}

// sampler gives the sampler of a provider; ok false if it has none, or one whose service is not there.
func (m *maker) sampler(n named, p *provider) (config *corev3.TypedExtensionConfig, ok bool) {
	d := p.GetOpentelemetry().GetDynatraceSampler()
	if d == nil {
		return nil, false
	}
	api := d.GetHttpService()
	at := service{cluster: m.providers.services[p.GetName()].cluster, host: p.GetOpentelemetry().GetService(), port: p.GetOpentelemetry().GetPort()}
	path, http := defaultSamplingPath, p.GetOpentelemetry().GetHttp()
	if api != nil {
		at = m.providers.services[samplerName(p.GetName())]
		http = api.GetHttp()
		path = http.GetPath()
	}
	if at.cluster == "" {
		m.warn(n.origin, fmt.Sprintf("provider %q: the service of its sampler: %s", p.GetName(), at.fault))
		return nil, false
	}
	m.out.Clusters = append(m.out.Clusters, at.cluster)
	return extension("envoy.tracers.opentelemetry.samplers.dynatrace", &samplersv3.DynatraceSamplerConfig{
		Tenant: d.GetTenant(), ClusterId: d.GetClusterId(), RootSpansPerMinute: d.GetRootSpansPerMinute(),
		HttpService: httpCollector(at, path, http.GetTimeout(), http.GetHeaders()),
	}), true
}

// defaultSamplingPath is where Dynatrace's API says what to sample.
const defaultSamplingPath = "/api/v2/samplingConfiguration"

func extension(name string, config proto.Message) *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{Name: name, TypedConfig: resource.Pack(config)}
}
