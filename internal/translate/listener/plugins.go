package listener

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networkrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	networkwasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/wasm/v3"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
)

// everyPhase returns all phases of plugins, in order: BeforeAuthentication, BeforeAuthorization,
// AfterAuthorization, Last.
func everyPhase() []plugin.Phase {
	return []plugin.Phase{
		plugin.BeforeAuthentication, plugin.BeforeAuthorization, plugin.AfterAuthorization,
		plugin.Last,
	}
}

// accessPlugins is whether plugins run between CUSTOM policies and the authentication of requests,
// and between this and their authorization.
type accessPlugins struct{ beforeAuthentication, beforeAuthorization bool }

// accessPluginsOf returns whether there are plugins of the phases AUTHN and AUTHZ for inbound or
// gateway listeners. Plugins for connections are ignored.
func accessPluginsOf(plugins plugin.Places) (a accessPlugins) {
	for p := range plugins.All {
		if p.Connections || !p.AppliesToSide(plugin.Inbound) && !p.AppliesToSide(plugin.Edge) {
			continue
		}
		a.beforeAuthentication = a.beforeAuthentication || p.Phase == plugin.BeforeAuthentication
		a.beforeAuthorization = a.beforeAuthorization || p.Phase == plugin.BeforeAuthorization
	}
	return a
}

// requestPlugins returns the HTTP filters that reference the plugins of a phase, for a side and
// port, by ECDS. Plugins for connections are left out. It returns nil if there are none.
func (a listenerContext) requestPlugins(phase plugin.Phase, side plugin.Side, port uint32) (list []*hcmv3.HttpFilter) {
	for p := range a.plugins.All {
		if p.Connections || p.Phase != phase || !p.AppliesTo(side, port) {
			continue
		}
		source := pluginSource(new(httpwasmv3.Wasm), new(httprbacv3.RBAC))
		switch {
		case p.Replaced:
			source = pluginSource(new(httprbacv3.RBAC))
		case p.Language == plugin.Lua:
			source = pluginSource(new(luav3.Lua))
		}
		list = append(
			list,
			&hcmv3.HttpFilter{Name: p.Name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: source}},
		)
	}
	return list
}

// connectionPlugins returns the network filters that reference the plugins for connections of
// phases, for the chain's side and port, by ECDS, in the order of phases. It returns nil for QUIC,
// because plugins do not support it.
func (b builder) connectionPlugins(c *Chain, phases ...plugin.Phase) (list []*listenerv3.Filter) {
	if b.quic {
		return nil
	}
	side := filterSet{calledFrom: b.inbound || b.edge, callsOn: !b.inbound}.side()
	for _, phase := range phases {
		for p := range b.plugins.All {
			if !p.Connections || p.Phase != phase || !p.AppliesTo(side, b.portOf(c)) {
				continue
			}
			source := pluginSource(new(networkwasmv3.Wasm), new(networkrbacv3.RBAC))
			if p.Replaced {
				source = pluginSource(new(networkrbacv3.RBAC))
			}
			list = append(
				list,
				&listenerv3.Filter{Name: p.Name, ConfigType: &listenerv3.Filter_ConfigDiscovery{ConfigDiscovery: source}},
			)
		}
	}
	return list
}

// portOf returns the destination port of a chain's connections, which selects plugins; 0 if it may
// be any.
func (b builder) portOf(c *Chain) uint32 {
	if port := c.Match.DestinationPort; port != 0 {
		return port
	}
	return b.port
}

// pluginSource returns the ECDS source of a plugin of one of types. They include the replacement
// that an agent sends if it cannot download the module. For an Envoy that cannot run modules they
// are only the replacement, because such an Envoy may not know the Wasm filter either. The listener
// waits for the plugin, because it may protect it, but at most plugin.FetchTimeout: without the
// plugin it then refuses all requests.
func pluginSource(types ...proto.Message) *corev3.ExtensionConfigSource {
	source := &corev3.ExtensionConfigSource{ConfigSource: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(plugin.FetchTimeout),
	}}
	for _, m := range types {
		source.TypeUrls = append(source.TypeUrls, resource.Pack(m).TypeUrl)
	}
	return source
}

// pluginsOf returns the objects of the plugins that apply to the side of the listener, on any port.
func (a listenerContext) pluginsOf(s *Spec) (list []config.Key) {
	side := filterSet{calledFrom: s.Inbound || s.Gateway, callsOn: !s.Inbound}.side()
	for p := range a.plugins.All {
		if p.AppliesToSide(side) {
			list = append(list, p.Object)
		}
	}
	return list
}
