package plugin

import (
	"cmp"
	"slices"

	extensions "istio.io/api/extensions/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Phase is where among the filters of the mesh a plugin is. Requests pass the phases in this order.
type Phase int

// The phases (WasmPlugin.phase).
const (
	// BeforeAuthentication is AUTHN, BeforeAuthorization is AUTHZ.
	BeforeAuthentication Phase = iota
	BeforeAuthorization
	// AfterAuthorization is STATS, and Last the phase of plugins that name none.
	AfterAuthorization
	Last
)

// Side is whose listeners a plugin is in.
type Side int

// The sides: what comes to the workload, what it sends, and what comes to a gateway.
const (
	Inbound Side = iota
	Outbound
	Edge
)

// Place is where proxies have a plugin. It is all that listeners depend on.
type Place struct {
	// Name is that of the extension which proxies ask for.
	Name   string
	Object config.Key
	Phase  Phase
	// Language is of what is run there.
	Language Language
	// Connections says that the plugin is for connections, whatever they carry, rather than for requests.
	Connections bool
	// traffic is what passes it; empty: everything.
	traffic memo.List[traffic]
}

// Language is how a plugin is written.
type Language int

// The languages.
const (
	Wasm Language = iota
	Lua
)

// traffic is one of the selectors of a plugin.
type traffic struct {
	mode  typev1beta1.WorkloadMode
	ports memo.List[uint32] // empty: all
}

// Places are where proxies have plugins, in the order in which requests pass them.
type Places = memo.List[Place]

// Of gives where the proxies of a View have plugins.
func Of(v *view.View) Places {
	if v.Key.Plugins.Wasm == "" && v.Key.Plugins.Traffic == "" {
		return Places{}
	}
	list := v.Snapshot.Plugins(v.Key.Plugins)
	slices.SortStableFunc(list, func(a, b *config.Config) int { return cmp.Compare(priority(b), priority(a)) })
	places := make([]Place, len(list))
	for i, c := range list {
		places[i] = placeOf(c)
	}
	slices.SortStableFunc(places, func(a, b Place) int { return cmp.Compare(a.Phase, b.Phase) })
	return memo.ListOf(places)
}

// Takes says whether the plugin is in listeners of a side, for a port: of the service that is called, of the application, or of the
// gateway. 0 is of no port that is known.
func (p Place) Takes(side Side, port uint32) bool {
	if p.traffic == (memo.List[traffic]{}) {
		return true
	}
	for t := range p.traffic.All {
		if t.takes(side, port) {
			return true
		}
	}
	return false
}

// Within says whether the plugin is in listeners of a side, for some ports.
func (p Place) Within(side Side) bool {
	if p.traffic == (memo.List[traffic]{}) {
		return true
	}
	for t := range p.traffic.All {
		if t.within(side) {
			return true
		}
	}
	return false
}

// within: what a gateway does it does as its callers' client (WasmPlugin.match.mode).
func (t traffic) within(side Side) bool {
	switch t.mode {
	case typev1beta1.WorkloadMode_CLIENT:
		return side != Inbound
	case typev1beta1.WorkloadMode_SERVER:
		return side == Inbound
	default:
		return true
	}
}

func (t traffic) takes(side Side, port uint32) bool {
	if !t.within(side) {
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

func priority(c *config.Config) int32 {
	if c.Kind == api.WasmPlugin {
		return config.Spec[*extensions.WasmPlugin](c).GetPriority().GetValue()
	}
	return config.Spec[*extensions.TrafficExtension](c).GetPriority().GetValue()
}

// selector is what is said of traffic, by either kind.
type selector interface {
	GetMode() typev1beta1.WorkloadMode
	GetPorts() []*typev1beta1.PortSelector
}

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

// phaseOf reads a phase: both kinds number them alike.
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

// nameOf gives the name of an object's extension, as istiod 1.31 has it: EnvoyFilters look for it. To istiod a WasmPlugin is a
// TrafficExtension of another name.
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
