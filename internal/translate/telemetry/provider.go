package telemetry

import (
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// provider is a MeshConfig.extensionProvider.
type provider = meshconfig.MeshConfig_ExtensionProvider

// builtinLog is the name of the built-in provider of access logs.
const builtinLog = "envoy"

// builtinProvider returns the provider that Istio defines without configuration: "prometheus" for
// metrics, "envoy" for access logs in /dev/stdout, or "stackdriver". It returns nil for other
// names.
func builtinProvider(name string) *provider {
	switch name {
	case "prometheus":
		return &provider{Name: name, Provider: &meshconfig.MeshConfig_ExtensionProvider_Prometheus{
			Prometheus: new(meshconfig.MeshConfig_ExtensionProvider_PrometheusMetricsProvider),
		}}
	case builtinLog:
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

// newProviders returns the providers of the mesh, with their services as the View sees them.
func newProviders(in input) providers {
	p := providers{settings: in.settings, services: map[string]service{}}
	for name, s := range destination.ProvidersByName(in.services.All) {
		p.services[name] = newService(s)
	}
	return p
}

// findProvider returns the provider with a name, configured or built in, or nil if there is none.
// Without a configured one of that name, it may differ in upper and lower case, as in Istio.
func (p providers) findProvider(name string) *provider {
	list := p.settings.Mesh.GetExtensionProviders()
	i := slices.IndexFunc(list, func(x *provider) bool { return x.GetName() == name })
	if i < 0 {
		i = slices.IndexFunc(list, func(x *provider) bool { return strings.EqualFold(x.GetName(), name) })
	}
	if i >= 0 {
		return list[i]
	}
	return builtinProvider(strings.ToLower(name))
}

// kindOf returns the kind of a provider, the JSON name of its field ("envoyOtelAls"), or "" if it
// has none.
func kindOf(p *provider) string {
	m := p.ProtoReflect()
	if fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("provider")); fd != nil {
		return fd.JSONName()
	}
	return ""
}
