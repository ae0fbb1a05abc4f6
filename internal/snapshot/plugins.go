package snapshot

import (
	"slices"

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

// Plugins returns the WasmPlugins and TrafficExtensions with the names in n in one list: first the
// objects of the proxy's namespace, then those of the root namespace, each of these two groups
// oldest first. Names of objects that no longer exist are skipped.
func (s *Snapshot) Plugins(n PluginNames) []*config.Config {
	list := append(s.Policies(api.WasmPlugin, n.Wasm), s.Policies(api.TrafficExtension, n.Traffic)...)
	slices.SortStableFunc(list, func(a, b *config.Config) int {
		if a.Namespace == b.Namespace {
			return config.CompareAge(a, b)
		}
		if a.Namespace == s.Settings.RootNamespace {
			return 1
		}
		return -1
	})
	return list
}
