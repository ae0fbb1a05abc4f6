package telemetry

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// provider is a MeshConfig.extensionProvider, short.
type provider = meshconfig.MeshConfig_ExtensionProvider

// builtin gives the providers that Istio's users have without asking for them; nil for other names.
func builtin(name string) *provider {
	switch name {
	case "prometheus":
		return &provider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_Prometheus{
			Prometheus: new(meshconfig.MeshConfig_ExtensionProvider_PrometheusMetricsProvider),
		}}
	case "envoy":
		return &provider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog{
			EnvoyFileAccessLog: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider{Path: "/dev/stdout"},
		}}
	case "stackdriver":
		return &provider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_Stackdriver{
			Stackdriver: new(meshconfig.MeshConfig_ExtensionProvider_StackdriverProvider),
		}}
	default:
		return nil
	}
}

// providers are the mesh's, by name. Of two with one name the first counts; a builtin one only if there is no other.
type providers struct {
	settings *snapshot.Settings
	services map[string]service // by provider
}

func newProviders(in input) providers {
	p := providers{settings: in.settings, services: map[string]service{}}
	for name, s := range destination.ProvidersByName(in.services.All) {
		p.services[name] = newService(s)
	}
	return p
}

// find gives a provider, nil if there is none of the name.
func (p providers) find(name string) *provider {
	for _, x := range p.settings.Mesh.GetExtensionProviders() {
		if x.GetName() == name {
			return x
		}
	}
	return builtin(name)
}

// kindOf says what a provider is, as its field is called.
func kindOf(p *provider) string {
	m := p.ProtoReflect()
	if fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("provider")); fd != nil {
		return fd.JSONName()
	}
	return ""
}
