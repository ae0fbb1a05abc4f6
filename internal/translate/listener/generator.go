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

// Generator makes the listeners of Views, each distinct one once. It is for use by many goroutines.
type Generator struct {
	built           *memo.KeyedTable[listenerInput, listenerKey, *resource.Resource]
	extensions      *memo.KeyedTable[extensionInput, extensionKey, *resource.Resource]
	commons         *memo.Table[around, *common]
	telemetry       *telemetry.Table
	authentications *authentication.Table
	authorizations  *authorization.Table
	guards          *memo.KeyedTable[guardInput, guardKey, *guard]
	// policyExtensions are the policies that come by ECDS.
	policyExtensions *memo.Table[policyExtension, *resource.Resource]
	// newest are the outbound listeners of classes as they are now: what a change of them is made from.
	newest *memo.Latest[class, outbound]

	planned, replanned, places atomic.Uint64
}

// listenerInput is everything that an encoded listener depends on.
type listenerInput struct {
	spec *Spec
	around
}

// listenerKey identifies a listenerInput.
type listenerKey struct {
	spec string // its complete text
	around
}

func (in listenerInput) key() listenerKey {
	var buffer [4096]byte
	return listenerKey{string(in.spec.appendText(buffer[:0], false)), in.around}
}

// around is what finished listeners depend on beside what is planned.
type around struct {
	settings  *snapshot.Settings
	telemetry *telemetry.Telemetry
	// peers says that the proxy calls others with mutual TLS.
	peers bool
	// guard is who may call; nil: listeners by which the workload itself calls.
	guard *guard
	// plugins are where users' code is.
	plugins plugin.Places
}

func (g *Generator) around(v *view.View) around {
	return around{settings: v.Settings, telemetry: g.telemetry.For(v), peers: v.Key.Client != mesh.Credentials{}, plugins: plugin.Of(v)}
}

// guarded is around for what is called.
func (g *Generator) guarded(v *view.View) around {
	a := g.around(v)
	a.guard = g.guard(v, a.plugins)
	return a
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	g := &Generator{
		commons:          memo.New(newCommon),
		telemetry:        telemetry.NewTable(),
		authentications:  authentication.NewTable(),
		authorizations:   authorization.NewTable(),
		guards:           memo.NewKeyed(guardInput.key, newGuard),
		policyExtensions: memo.New(encodePolicies),
		newest:           memo.NewLatest[class, outbound](),
	}
	g.built = memo.NewKeyed(listenerInput.key, g.encode)
	g.extensions = memo.NewKeyed(extensionInput.key, g.encodeExtension)
	return g
}

// All gives the listeners of a View: those of its own, then those that all Views of its class have, or those of a gateway.
func (g *Generator) All(v *view.View) []*resource.Resource {
	return slices.Concat(g.Own(v), g.Outbound(v), g.Gateway(v))
}

// Own gives the listeners that depend on what a proxy serves and how connections get to it.
func (g *Generator) Own(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	return g.resources(planOwn(v).specs, g.guarded(v))
}

// OwnTouched says whether a change may alter what Own gives; s is the snapshot after it.
func (g *Generator) OwnTouched(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	return v.TouchesInbound(d) || g.telemetry.Touched(v, s, d) || g.policiesTouched(v, s, d) || plugin.Touched(v, s, d)
}

// Outbound gives the listeners by which services are called.
func (g *Generator) Outbound(v *view.View) []*resource.Resource {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	common := g.outbound(v)
	if !v.Key.Bound {
		return common.resources
	}
	taken := planOwn(v).taken
	return slices.DeleteFunc(slices.Clone(common.resources), func(r *resource.Resource) bool { return taken[r.Name] })
}

// OutboundTouched says whether a change may alter what Outbound gives; s is the snapshot after it. Of VirtualServices and
// DestinationRules only those do that have something to say of connections.
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
			if v.Sidecar != nil || routesConnections(v.Snapshot.Config(k)) || routesConnections(s.Config(k)) {
				return true
			}
		default:
			if v.TouchedBy(k) {
				return true
			}
		}
	}
	return len(d.Rules) > 0 && rulesTouch(v, s, d)
}

// rulesTouch says whether the DestinationRules that differ are of hosts whose listeners follow them.
func rulesTouch(v *view.View, s *snapshot.Snapshot, d snapshot.Delta) bool {
	for _, e := range v.Egress {
		for _, vs := range e.VirtualServices {
			if len(vs.Spec.GetTcp())+len(vs.Spec.GetTls()) > 0 { // and so may lead to hosts that are no services
				return true
			}
		}
	}
	now := v.On(s)
	differs, ok := now.Since(v, d)
	return !ok || slices.ContainsFunc(differs.Rules, func(h mesh.Hostname) bool { return shapingRule(v, h) != shapingRule(now, h) })
}

// routesConnections says that a VirtualService has routes other than of HTTP.
func routesConnections(c *config.Config) bool {
	if c == nil {
		return false
	}
	spec := config.Spec[*networking.VirtualService](c)
	return len(spec.GetTcp())+len(spec.GetTls()) > 0
}

// Plan gives the same as plain data, for people and tests. It is made anew each time.
func (g *Generator) Plan(v *view.View) []Spec {
	if v.Key.Type == mesh.RouterProxy {
		return planGateway(v).specs
	}
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	own, common := planOwn(v), planOutbound(v, g.inputFor(v))
	return slices.Concat(own.specs, slices.DeleteFunc(common.specs, func(s Spec) bool { return own.taken[s.Name] }))
}

// Conflicts gives the connections that services of a View's class do not get because others have them.
func (g *Generator) Conflicts(v *view.View) []Conflict {
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	return g.outbound(v).conflicts
}

// Problems gives what of the objects that a View's listeners are made of is not served as it says, sorted, as Warnings
// without Origin.
func (g *Generator) Problems(v *view.View) []config.Problem {
	if v.Key.Type == mesh.RouterProxy {
		return slices.Concat(g.gateway(v).problems, g.telemetry.Problems(v), g.policyProblems(v))
	}
	if v.Key.Type != mesh.SidecarProxy {
		return nil
	}
	own, common := planOwn(v), g.outbound(v)
	list := slices.Concat(conflictProblems(common.conflicts), withoutPlaces(common.problems), own.problems, g.telemetry.Problems(v), g.policyProblems(v))
	list = append(list, unimported(v)...)
	for _, r := range common.resources {
		if own.taken[r.Name] {
			list = append(list, config.Problem{
				Key: v.Sidecar.Key, Field: "spec.ingress", Severity: config.Warning,
				Reason: fmt.Sprintf("a listener bound to %s leaves no room for the outbound one at the same place: give it an address (bind)", r.Name),
			})
		}
	}
	slices.SortFunc(list, config.Problem.Compare)
	return slices.Compact(list)
}

// unimported tells of an egressProxy that is there, and that its Sidecar does not import.
func unimported(v *view.View) []config.Problem {
	host := mesh.Hostname(v.Unknown().Proxy.GetHost())
	is := func(svc *mesh.Service) bool { return svc.Host == host }
	if v.Sidecar == nil || host == "" || v.Service(host) != nil || !slices.ContainsFunc(v.Snapshot.Services(), is) {
		return nil
	}
	return []config.Problem{{
		Key: v.Sidecar.Key, Field: "spec.outboundTrafficPolicy.egressProxy.host", Severity: config.Warning,
		Reason: fmt.Sprintf("no egress listener of this Sidecar imports %q: connections to unknown destinations fail", host),
	}}
}

// Computed is how many listeners were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.built.Computed() }

// ComputedExtensions is how many extensions were.
func (g *Generator) ComputedExtensions() uint64 { return g.extensions.Computed() }

// Planned is how often outbound listeners were planned whole since the start.
func (g *Generator) Planned() uint64 { return g.planned.Load() }

// Replanned is how often they were planned only as far as a change went.
func (g *Generator) Replanned() uint64 { return g.replanned.Load() }

// Places is how many listeners were planned, in one way or the other.
func (g *Generator) Places() uint64 { return g.places.Load() }

// resources gives the finished listeners of Specs.
func (g *Generator) resources(specs []Spec, a around) []*resource.Resource {
	list := make([]*resource.Resource, len(specs))
	for i := range specs {
		list[i] = g.built.Get(listenerInput{&specs[i], a})
	}
	return list
}

func (g *Generator) encode(in listenerInput) *resource.Resource {
	s, a := in.spec, in.around
	c := g.commons.Get(a)
	from, clusters := slices.Concat(s.From, a.telemetry.From), slices.Concat(s.clusters(), a.telemetry.Clusters)
	if a.guard != nil && (s.Inbound || s.Gateway) {
		from, clusters = append(from, a.guard.from...), append(clusters, a.guard.clusters...)
	}
	r, err := resource.Encode(s.Name, api.ListenerType, build(s, c), append(from, a.pluginsOf(s)...)...)
	if err != nil {
		panic(fmt.Sprintf("listener %q: %v", s.Name, err)) // messages of our own making always encode
	}
	r.Parts = c // the next listener may have it too
	if len(clusters) > 0 {
		r.Refers = func() []string { return clusters }
	}
	return r
}

// own is the listeners that a View does not share with its class.
type own struct {
	*inboundPlan
	// taken are the names of inbound listeners that are bound. The class may have outbound ones of the same names, that is
	// in the same places.
	taken map[string]bool
}

func planOwn(v *view.View) own {
	o := own{inboundPlan: planInbound(v), taken: map[string]bool{}}
	for i := range o.specs {
		if n := o.specs[i].Name; n != virtualInbound {
			o.taken[n] = true
		}
	}
	var first []Spec
	if v.Key.Interception != noInterception {
		first = append(first, planVirtualOutbound(v))
	}
	if v.Settings.Mesh.GetProxyHttpPort() > 0 {
		first = append(first, planHTTPProxy(v))
	}
	o.specs = append(first, o.specs...)
	return o
}
