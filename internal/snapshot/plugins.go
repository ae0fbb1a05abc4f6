package snapshot

import (
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// PluginNames names the WasmPlugins and TrafficExtensions that hold for a proxy, as PolicyNames names policies. The zero value is none.
type PluginNames struct{ Wasm, Traffic string }

// Has says whether the object is one of them.
func (n PluginNames) Has(k config.Key) bool {
	switch k.Kind {
	case api.WasmPlugin:
		return named(n.Wasm, k)
	case api.TrafficExtension:
		return named(n.Traffic, k)
	default:
		return false
	}
}

// PluginNames gives the names of the plugins that hold for a proxy: chosen as policies are (see PolicyNames).
func (s *Snapshot) PluginNames(p Patched) PluginNames {
	if s.policies == nil {
		return PluginNames{}
	}
	return PluginNames{s.policies[api.WasmPlugin].names(p), s.policies[api.TrafficExtension].names(p)}
}

// Plugins gives the objects of the names: those of the root namespace first, the oldest first in each. Those that are gone since are
// left out.
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

func (s *Snapshot) pluginBefore(a, b *config.Config) bool {
	if root := s.Settings.RootNamespace; a.Namespace != b.Namespace {
		return a.Namespace == root
	}
	return config.Older(a, b) < 0
}
