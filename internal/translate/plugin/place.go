package plugin

import (
	"cmp"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/wrapperspb"

	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Phase is the position of a plugin relative to the mesh's own filters. Requests pass the phases in
// this order.
type Phase int

// The phases (WasmPlugin.phase).
const (
	// BeforeAuthentication is AUTHN, BeforeAuthorization is AUTHZ.
	BeforeAuthentication Phase = iota
	BeforeAuthorization
	// AfterAuthorization is STATS, and Last the default.
	AfterAuthorization
	Last
)

// Side is the kind of listeners that a plugin applies to.
type Side int

// Inbound is traffic to the workload, Outbound traffic from it, Edge traffic to a gateway.
const (
	Inbound Side = iota
	Outbound
	Edge
)

// Place is the position of a plugin. It is everything that listeners depend on.
type Place struct {
	// Name is the name of the extension config.
	Name   string
	Object config.Key
	Phase  Phase
	// Language is the language of the plugin's code.
	Language Language
	// Connections is set if the plugin is a network filter for all connections, not an HTTP filter.
	Connections bool
	// Replaced is set if the proxies' Envoy cannot run the plugin. It is then sent an RBAC filter
	// under the same name, which applies the failStrategy.
	Replaced bool
	// traffic is the traffic that the plugin applies to; if empty, all.
	traffic memo.List[traffic]
}

// Language is the language of a plugin.
type Language int

// The languages.
const (
	Wasm Language = iota
	Lua
)

// traffic is one of the traffic selectors of a plugin.
type traffic struct {
	mode  typev1beta1.WorkloadMode
	ports memo.List[uint32] // if empty, all ports match
}

// Places are the places of plugins, in the order in which requests pass them.
type Places = memo.List[Place]

// Of returns the places of the WasmPlugins and TrafficExtensions of a View, by phase and, within a
// phase, by descending priority. It is empty if there are none.
func Of(v *view.View) Places {
	if v.Key.Plugins.Wasm == "" && v.Key.Plugins.Traffic == "" {
		return Places{}
	}
	list := v.Snapshot.Plugins(v.Key.Plugins)
	slices.SortStableFunc(list, func(a, b *config.Config) int { return cmp.Compare(priorityOf(b), priorityOf(a)) })
	places := make([]Place, len(list))
	for i, c := range list {
		places[i] = placeOf(c)
		places[i].Replaced = isReplaced(v, c)
	}
	slices.SortStableFunc(places, func(a, b Place) int { return cmp.Compare(a.Phase, b.Phase) })
	return memo.ListOf(places)
}

// AppliesTo reports whether the plugin applies to listeners of a side at a port: of the called
// service, the application, or the gateway. 0 means an unknown port, to which selectors with ports
// do not apply. A plugin without selectors applies to all sides and ports.
func (p Place) AppliesTo(side Side, port uint32) bool {
	if p.traffic == (memo.List[traffic]{}) {
		return true
	}
	for t := range p.traffic.All {
		if t.matchesPort(side, port) {
			return true
		}
	}
	return false
}

// AppliesToSide reports whether the plugin applies to listeners of a side, at any or only some
// ports. A plugin that selects no traffic applies to all sides.
func (p Place) AppliesToSide(side Side) bool {
	if p.traffic == (memo.List[traffic]{}) {
		return true
	}
	for t := range p.traffic.All {
		if t.matchesSide(side) {
			return true
		}
	}
	return false
}

// matchesSide reports whether the selector includes a side (WasmPlugin.match.mode). A gateway is a
// client. An unset mode includes all sides. Gateways and outbound listeners match CLIENT, inbound
// listeners match SERVER.
func (t traffic) matchesSide(side Side) bool {
	switch t.mode {
	case typev1beta1.WorkloadMode_CLIENT:
		return side != Inbound
	case typev1beta1.WorkloadMode_SERVER:
		return side == Inbound
	default:
		return true
	}
}

// matchesPort reports whether the selector matches the side and the port. A selector without ports
// matches all.
func (t traffic) matchesPort(side Side, port uint32) bool {
	if !t.matchesSide(side) {
		return false
	}
	if t.ports == (memo.List[uint32]{}) {
		return true
	}
	for p := range t.ports.All {
		if p == port {
			return true
		}
	}
	return false
}

// priorityOf returns the priority of a WasmPlugin or TrafficExtension. An unset one is the lowest,
// as in Istio.
func priorityOf(c *config.Config) int32 {
	p := config.Spec[interface{ GetPriority() *wrapperspb.Int32Value }](c).GetPriority()
	if p == nil {
		return math.MinInt32
	}
	return p.GetValue()
}

// selector is the common interface of the traffic selectors of both kinds.
type selector interface {
	GetMode() typev1beta1.WorkloadMode
	GetPorts() []*typev1beta1.PortSelector
}

// placeOf returns the place of a WasmPlugin or TrafficExtension, without Replaced. For kinds other
// than WasmPlugin it reads a TrafficExtension; the language is Lua if that has a Lua script.
func placeOf(c *config.Config) Place {
	p := Place{Name: nameOf(c.Key), Object: c.Key}
	if c.Kind == api.WasmPlugin {
		spec := config.Spec[*extensions.WasmPlugin](c)
		p.Phase, p.Connections = phaseOf(int32(spec.GetPhase())), spec.GetType() == extensions.PluginType_NETWORK
		p.traffic = trafficOf(spec.GetMatch())
		return p
	}
	spec := config.Spec[*extensions.TrafficExtension](c)
	p.Phase, p.Connections = phaseOf(int32(spec.GetPhase())), spec.GetWasm().GetType() == extensions.PluginType_NETWORK
	if spec.GetLua() != nil {
		p.Language = Lua
	}
	p.traffic = trafficOf(spec.GetMatch())
	return p
}

// phaseOf converts the number of a phase, which is the same in both kinds: AUTHN is
// BeforeAuthentication, AUTHZ is BeforeAuthorization, STATS is AfterAuthorization. Unspecified and
// unknown phases are Last.
func phaseOf(n int32) Phase {
	switch extensions.PluginPhase(n) {
	case extensions.PluginPhase_AUTHN:
		return BeforeAuthentication
	case extensions.PluginPhase_AUTHZ:
		return BeforeAuthorization
	case extensions.PluginPhase_STATS:
		return AfterAuthorization
	default:
		return Last
	}
}

// trafficOf converts the traffic selectors of a plugin. Without any, the result is the zero List.
func trafficOf[S selector](list []S) memo.List[traffic] {
	var out []traffic
	for _, s := range list {
		var ports []uint32
		for _, p := range s.GetPorts() {
			ports = append(ports, p.GetNumber())
		}
		out = append(out, traffic{s.GetMode(), memo.ListOf(ports)})
	}
	return memo.ListOf(out)
}

// nameOf returns the name of the extension config of a WasmPlugin or TrafficExtension. It is the
// same as in istiod 1.31, because EnvoyFilters match it: istiod converts a WasmPlugin to a
// TrafficExtension with another name.
func nameOf(k config.Key) string {
	name := namePrefix + k.Namespace + "." + k.Name
	if k.Kind == api.WasmPlugin {
		name += wasmSuffix
	}
	return name
}

const (
	namePrefix = "extensions.istio.io/trafficextension/"
	wasmSuffix = "~istio-translated-wasmplugin"
)
