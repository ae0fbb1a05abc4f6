package telemetry

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// service is the service of a provider, as a View sees it.
type service struct {
	// cluster is "" if there is none; fault is the reason.
	cluster, fault string
	host           string
}

// address is a provider's service in MeshConfig, "[NAMESPACE/]HOST", and its port.
type address struct {
	name string
	port uint32
}

// addressOf returns the service and port of a provider of traces or logs: Zipkin, Datadog,
// SkyWalking, OpenTelemetry, or an access log service (ALS). The bool is false for all other kinds
// of providers.
func addressOf(p *provider) (address, bool) {
	type served interface {
		GetService() string
		GetPort() uint32
	}
	var s served
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		s = x.Zipkin
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		s = x.Datadog
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		s = x.Skywalking
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		s = x.Opentelemetry
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		s = x.EnvoyHttpAls
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		s = x.EnvoyTcpAls
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		s = x.EnvoyOtelAls
	default:
		return address{}, false
	}
	return address{s.GetService(), s.GetPort()}, true
}

// samplerName returns the key of the service of a provider's sampler.
func samplerName(provider string) string { return provider + "\x00sampler" }

// servicesOf returns, for each extension provider with an address, its name and its service as a
// View resolves it. The API of a Dynatrace sampler is an entry of its own, under samplerName.
// Providers without an address are left out.
func servicesOf(v *view.View) memo.List[destination.NamedProvider] {
	var list []destination.NamedProvider
	add := func(name string, a address) {
		list = append(list, destination.NamedProvider{Name: name, Provider: destination.ProviderOf(v, a.name, a.port)})
	}
	for _, p := range v.Settings.Mesh.GetExtensionProviders() {
		if a, ok := addressOf(p); ok {
			add(p.GetName(), a)
		}
		if api := p.GetOpentelemetry().GetDynatraceSampler().GetHttpService(); api != nil {
			add(samplerName(p.GetName()), address{api.GetService(), api.GetPort()})
		}
	}
	return memo.ListOf(list)
}

// newService returns the cluster, fault and host of a provider; cluster is "" if the fault is set.
func newService(p destination.Provider) service {
	return service{cluster: p.Cluster(), fault: p.Fault, host: p.Host}
}
