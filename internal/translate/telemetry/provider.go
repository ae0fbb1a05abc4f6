package telemetry

import (
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// provider is a MeshConfig.extensionProvider.
type provider = meshconfig.MeshConfig_ExtensionProvider

// builtinProvider returns a provider that Istio defines without configuration, or nil for other
// names.
func builtinProvider(name string) *provider {
	switch name {
	case "prometheus":
		return &provider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_Prometheus{
			Prometheus: new(meshconfig.MeshConfig_ExtensionProvider_PrometheusMetricsProvider),
		}}
	case "envoy":
		return &provider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog{
			EnvoyFileAccessLog: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider{
				Path: "/dev/stdout",
			},
		}}
	case "stackdriver":
		return &provider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_Stackdriver{
			Stackdriver: new(meshconfig.MeshConfig_ExtensionProvider_StackdriverProvider),
		}}
	default:
		return nil
	}
}

// providers are the mesh's providers by name. Of two with one name the first is used; a builtin one
// only if no other has the name.
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

// findProvider returns a provider, or nil if none has the name.
func (p providers) findProvider(name string) *provider {
	for _, x := range p.settings.Mesh.GetExtensionProviders() {
		if x.GetName() == name {
			return x
		}
	}
	return builtinProvider(name)
}

// kindOf returns the kind of a provider: the name of its field.
func kindOf(p *provider) string {
	m := p.ProtoReflect()
	if fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("provider")); fd != nil {
		return fd.JSONName()
	}
	return ""
}
