package snapshot

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// PluginNames lists the WasmPlugins and TrafficExtensions that apply to a proxy, in the form of
// PolicyNames. The zero value is empty.
type PluginNames struct{ Wasm, Traffic string }

// Has reports whether n contains the WasmPlugin or TrafficExtension with the key k. It returns
// false for other kinds.
func (n PluginNames) Has(k config.Key) bool {
	switch k.Kind {
	case api.WasmPlugin:
		return containsName(n.Wasm, k)
	case api.TrafficExtension:
		return containsName(n.Traffic, k)
	default:
		return false
	}
}

// PluginNames returns the names of the plugins that apply to a proxy. They are selected like
// policies (PolicyNames).
func (s *Snapshot) PluginNames(p ProxyAttributes) PluginNames {
	return PluginNames{s.AttachedNames(api.WasmPlugin, p), s.AttachedNames(api.TrafficExtension, p)}
}

// Plugins returns the WasmPlugins and TrafficExtensions with the names in n, merged into one list:
// first the objects of the root namespace, then all others, each of these two groups oldest first.
// Names of objects that no longer exist are skipped.
func (s *Snapshot) Plugins(n PluginNames) []*config.Config {
	wasm, traffic := s.Policies(api.WasmPlugin, n.Wasm), s.Policies(api.TrafficExtension, n.Traffic)
	list := make([]*config.Config, 0, len(wasm)+len(traffic))
	for len(wasm) > 0 && len(traffic) > 0 {
		if s.pluginBefore(traffic[0], wasm[0]) {
			list, traffic = append(list, traffic[0]), traffic[1:]
		} else {
			list, wasm = append(list, wasm[0]), wasm[1:]
		}
	}
	return append(append(list, wasm...), traffic...)
}

// pluginBefore reports whether plugin a precedes b: objects of the root namespace first, then the
// older one. Outside of the root namespace, both must be of one namespace.
func (s *Snapshot) pluginBefore(a, b *config.Config) bool {
	if root := s.Settings.RootNamespace; a.Namespace != b.Namespace {
		return a.Namespace == root
	}
	return config.CompareAge(a, b) < 0
}
