package listener

import (
	"fmt"
	"slices"
	"sync/atomic"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/authentication"
	"github.com/meshpilot/meshpilot/internal/translate/authorization"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
	"github.com/meshpilot/meshpilot/internal/translate/plugin"
	"github.com/meshpilot/meshpilot/internal/translate/telemetry"
)

// Generator generates the listeners of Views, and caches each distinct one. It is safe for
// concurrent use.
type Generator struct {
	built           *memo.KeyedTable[listenerInput, listenerKey, *resource.Resource]
	extensions      *memo.KeyedTable[extensionInput, extensionKey, *resource.Resource]
	shared          *memo.Table[listenerContext, *sharedParts]
	telemetry       *telemetry.Table
	authentications *authentication.Table
	authorizations  *authorization.Table
	accessTable     *memo.KeyedTable[accessInput, accessKey, *accessFilters]
	// policyExtensions are the extension configs with policies.
	policyExtensions *memo.Table[policyExtension, *resource.Resource]
	// newest are the newest outbound listeners of each class, from which the next are derived.
	newest *memo.Latest[class, outbound]

	planned, places atomic.Uint64
}

// listenerInput is everything that an encoded listener depends on.
type listenerInput struct {
	spec *Spec
	listenerContext
}

// listenerKey identifies a listenerInput.
type listenerKey struct {
	spec string // its complete text
	listenerContext
}

// key returns the cache key of the encoded listener: the text of the Spec without the parts that
// come by ECDS, and the context.
func (in listenerInput) key() listenerKey {
	var buffer [4096]byte
	return listenerKey{string(in.spec.appendText(buffer[:0], false)), in.listenerContext}
}

// inboundContext returns the context of listeners that clients call: contextFor with access
// policies.
func (g *Generator) inboundContext(v *view.View) listenerContext {
	a := g.contextFor(v)
	a.access = g.accessFilters(v, a.plugins)
	return a
}

// NewGenerator returns a Generator with empty caches.
func NewGenerator() *Generator {
	g := &Generator{
		shared:           memo.New(newSharedParts),
		telemetry:        telemetry.NewTable(),
		authentications:  authentication.NewTable(),
		authorizations:   authorization.NewTable(),
		accessTable:      memo.NewKeyed(accessInput.key, newAccessFilters),
		policyExtensions: memo.New(encodePolicies),
		newest:           memo.NewLatest[class, outbound](),
	}
	g.built = memo.NewKeyed(listenerInput.key, g.encodeListener)
	g.extensions = memo.NewKeyed(extensionInput.key, g.encodeExtension)
	return g
}

// All returns the listeners of a View: its own, and the outbound listeners of its class or the
// listeners of its gateway.
func (g *Generator) All(v *view.View) []*resource.Resource {
	return slices.Concat(g.Own(v), g.Outbound(v), g.Gateway(v))
}

// Own returns the listeners that depend on the ports that a sidecar serves and on how connections
// reach it: inbound, captured outbound connections, and its HTTP proxy. It returns nil for other
// proxies.
func (g *Generator) Own(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	return g.resources(planOwn(v).specs, g.inboundContext(v))
}

// OwnTouched reports whether a change may alter the result of Own; s is the snapshot after the
// change. It returns true for changes of the inbound services, and if telemetry, policies, plugins
// or external credentials are touched.
func (g *Generator) OwnTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	return v.IsInboundAffectedBy(d) || g.telemetry.Touched(v, s, d) || g.policiesTouched(v, s, d) ||
		plugin.Touched(v, s, d) || len(v.Ingress) > 0 && credentialsTouched(v, s, d)
}

// Outbound returns the listeners for calls to services. It omits listeners whose name an inbound
// listener of the View has. It returns nil for proxies that are not sidecars.
func (g *Generator) Outbound(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	common := g.outbound(v)
	if !v.Key.HasBoundIngress {
		return common.resources
	}
	taken := boundNames(v)
	return slices.DeleteFunc(slices.Clone(common.resources), func(r *resource.Resource) bool { return taken[r.Name] })
}

// OutboundTouched reports whether a change may alter the result of Outbound; s is the snapshot
// after the change. It returns true for any change of services, and of other objects that affect
// the View. VirtualServices matter only if they route TCP or TLS or apply by address
// (shapesListeners), or if the View has a Sidecar. For DestinationRules rulesTouch decides, for
// gateways GatewayTouched.
func (g *Generator) OutboundTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	if v.Key.Type == mesh.RouterProxy {
		return g.GatewayTouched(v, s, d)
	}
	if d.All || len(d.Services) > 0 || g.telemetry.Touched(v, s, d) {
		return true
	}
	for k := range d.Configs {
		switch k.Kind {
		case api.DestinationRule: // see below
		case api.VirtualService:
			if v.Sidecar != nil || shapesListeners(v.Snapshot.Config(k)) || shapesListeners(s.Config(k)) {
				return true
			}
		default:
			if v.IsAffectedByConfig(k) {
				return true
			}
		}
	}
	return len(d.Rules) > 0 && rulesTouch(v, s, d)
}

// rulesTouch reports whether a change of DestinationRules may alter outbound listeners. It returns
// true if listeners honour a changed rule (shapingRule), if a VirtualService routes TCP or TLS,
// because such routes may reference hosts without a service, or if the difference is unknown.
func rulesTouch(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	for _, e := range v.Egress {
		for _, vs := range e.VirtualServices {
			// Such routes may reference hosts without a service.
			if len(vs.Spec.GetTcp())+len(vs.Spec.GetTls()) > 0 {
				return true
			}
		}
	}
	now := v.WithSnapshot(s)
	differs, ok := now.DiffSince(v, d)
	return !ok ||
		slices.ContainsFunc(
			differs.Rules,
			func(h mesh.Hostname) bool { return shapingRule(v, h) != shapingRule(now, h) },
		)
}

// shapesListeners reports whether listeners of sidecars depend on a VirtualService: it routes TCP
// or TLS, or applies by address (Gateway API). It returns false for nil.
func shapesListeners(c *config.Config) bool {
	return routesConnections(c) || c != nil && c.Extension.AppliesByAddress()
}

// routesConnections reports whether a VirtualService has TCP or TLS routes. It returns false for
// nil.
func routesConnections(c *config.Config) bool {
	if c == nil {
		return false
	}
	spec := config.Spec[*networking.VirtualService](c)
	return len(spec.GetTcp())+len(spec.GetTls()) > 0
}

// Plan returns the planned listeners of a View, for debugging and tests, or nil unless it is of
// sidecars or gateways. It is not cached.
func (g *Generator) Plan(v *view.View) []Spec {
	if v.Key.Type == mesh.RouterProxy {
		return planGateway(v).specs
	}
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	taken, common := boundNames(v), planOutbound(v, g.inputFor(v))
	return slices.Concat(planOwn(v).specs, slices.DeleteFunc(common.specs, func(s Spec) bool { return taken[s.Name] }))
}

// Conflicts returns the connections that services of a View's class do not receive at outbound
// listeners because others take precedence. It returns nil for proxies that are not sidecars.
func (g *Generator) Conflicts(v *view.View) []Conflict {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	return g.outbound(v).conflicts
}

// Computed returns how many listeners have been generated since the start.
func (g *Generator) Computed() uint64 { return g.built.Computed() }

// ComputedExtensions returns how many extension configs have been generated since the start.
func (g *Generator) ComputedExtensions() uint64 { return g.extensions.Computed() }

// Planned returns how often the outbound listeners of a class have been planned completely since
// the start.
func (g *Generator) Planned() uint64 { return g.planned.Load() }

// Places returns how many outbound listener addresses have been planned since the start, completely
// or after a change.
func (g *Generator) Places() uint64 { return g.places.Load() }

// resources returns the encoded listeners of specs in the context a, in their order, each cached or
// new.
func (g *Generator) resources(specs []Spec, a listenerContext) []*resource.Resource {
	list := make([]*resource.Resource, len(specs))
	for i := range specs {
		list[i] = g.built.Get(listenerInput{&specs[i], a})
	}
	return list
}

// extensionsOf returns the encoded extension configs (ECDS) of all discovered chains in specs, by
// name, or nil if there are none.
func (g *Generator) extensionsOf(specs []Spec, a listenerContext) map[string]*resource.Resource {
	var out map[string]*resource.Resource
	add := func(s *Spec, c *Chain) {
		if c.TCP == nil || !c.TCP.Discovered {
			return
		}
		if out == nil {
			out = map[string]*resource.Resource{}
		}
		out[c.Name] = g.extensions.Get(extensionInput{c, s.From, a})
	}
	for i := range specs {
		s := &specs[i]
		for j := range s.Chains {
			add(s, &s.Chains[j])
		}
		add(s, &s.Default)
	}
	return out
}

// extensionNames returns the names of the extension configs that listeners reference, by the name
// of the listener. Listeners without any are left out; it returns nil if there are none.
func extensionNames(specs []Spec) map[string][]string {
	var out map[string][]string
	for i := range specs {
		s := &specs[i]
		var names []string
		for _, c := range append(s.Chains[:len(s.Chains):len(s.Chains)], s.Default) {
			if c.TCP != nil && c.TCP.Discovered {
				names = append(names, c.Name)
			}
		}
		if names == nil {
			continue
		}
		if out == nil {
			out = map[string][]string{}
		}
		out[s.Name] = names
	}
	return out
}

// encodeListener returns the encoded listener. It derives from the objects of the Spec, telemetry,
// plugins and, if clients call it, access policies. It refers to the clusters of these, and pins
// pinnedClusters. It panics if the listener cannot be encoded.
func (g *Generator) encodeListener(in listenerInput) *resource.Resource {
	s, a := in.spec, in.listenerContext
	c := g.shared.Get(a)
	from, clusters := slices.Concat(s.From, a.telemetry.From), slices.Concat(s.clusters(), a.telemetry.Clusters)
	if a.access != nil && (s.Inbound || s.Gateway) {
		from, clusters = append(from, a.access.from...), append(clusters, a.access.clusters...)
	}
	r, err := resource.Encode(s.Name, api.ListenerType, buildListener(s, c), append(from, a.pluginsOf(s)...)...)
	if err != nil {
		panic(fmt.Sprintf("listener %q: %v", s.Name, err)) // Generated messages always encode.
	}
	r.Parts = c // so that the next listener finds it cached
	if len(clusters) > 0 {
		r.Refers = func() []string { return clusters }
	}
	if pinned := a.pinnedClusters(s); len(pinned) > 0 {
		r.Pins = func() []string { return pinned }
	}
	return r
}

// planOwn plans the listeners that a View does not share with its class. First is the listener of
// captured outbound connections unless interception is NONE, then the HTTP proxy if the mesh has
// one, then inbound listeners. The result also has the Problems of planInbound.
func planOwn(v *view.View) *inboundPlan {
	p := planInbound(v)
	var first []Spec
	if v.Key.Interception != noInterception {
		first = append(first, planVirtualOutbound(v))
	}
	if v.Settings.HTTPProxyPort() > 0 {
		first = append(first, planHTTPProxy(v))
	}
	p.specs = append(first, p.specs...)
	return p
}
