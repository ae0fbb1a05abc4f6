package gatewayapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// routed is a route, converted.
type routed struct {
	// parents are the keys of all its parents, and refs the objects that it refers to.
	parents, refs []config.Key
	attachments   []*attachment
	outputs       []config.Key
}

// routeReaders are the conversions of the rules of one route: for its parents that are Gateways or
// ListenerSets, and for those in the mesh, which have other permissions. Each is nil if the route
// has no such parent.
type routeReaders struct{ gateways, mesh *routeReader }

// readRoute returns the conversions of the rules of a route of any kind for the parents of
// attachments.
func (c *Converter) readRoute(object *config.Config, hosts []mesh.Hostname, attachments []*attachment) routeReaders {
	var both routeReaders
	for _, a := range attachments {
		switch {
		case a.gateway == nil && both.mesh == nil:
			both.mesh = c.newReader(object, hosts, true)
		case a.gateway != nil && both.gateways == nil:
			both.gateways = c.newReader(object, hosts, false)
		}
	}
	return both
}

// of returns the conversion for the parent of a.
func (b routeReaders) of(a *attachment) *routeReader {
	if a.gateway == nil {
		return b.mesh
	}
	return b.gateways
}

// all returns the conversions that are not nil.
func (b routeReaders) all() []*routeReader {
	return slices.DeleteFunc([]*routeReader{b.gateways, b.mesh}, func(r *routeReader) bool { return r == nil })
}

// newReader returns a routeReader with the converted rules of a route of any kind, its references
// and verdicts: for parents in the mesh, or for Gateways.
func (c *Converter) newReader(object *config.Config, hosts []mesh.Hostname, inMesh bool) *routeReader {
	r := &routeReader{converter: c, object: object, inMesh: inMesh}
	switch o := object.Spec.(type) {
	case *gatewayv1.HTTPRoute:
		r.readHTTPRoute(&o.Spec)
	case *gatewayv1.GRPCRoute:
		r.readGRPCRoute(&o.Spec)
	case *gatewayv1.TLSRoute:
		r.readTLSRoute(&o.Spec, hosts)
	case *gatewayv1.TCPRoute:
		var rules [][]gatewayv1.BackendRef
		for _, rule := range o.Spec.Rules {
			rules = append(rules, rule.BackendRefs)
		}
		r.readConnections(rules)
	case *gatewayv1.UDPRoute:
		var rules [][]gatewayv1.BackendRef
		for _, rule := range o.Spec.Rules {
			rules = append(rules, rule.BackendRefs)
		}
		r.readConnections(rules)
	}
	return r
}

// hostnames returns the hostnames of a route in lower case, without duplicates and empty ones.
func hostnames(list []gatewayv1.Hostname) []mesh.Hostname {
	var out []mesh.Hostname
	for _, h := range list {
		if h := mesh.Hostname(strings.ToLower(string(h))); h != "" && !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

// converted is the result of the conversion of a route.
type converted struct {
	attachments []*attachment
	refs        []config.Key
	objects     []*config.Config
	status      *Status
	problems    []config.Problem
}

// convertRoute returns the objects, status and Problems of a route. If none of its parents is of
// this controller, it has no objects, and a status without parents. A parent that does not exist is
// a Warning. Default Gateways that do not accept the route are left out.
func (c *Converter) convertRoute(object *config.Config) *converted {
	spec, names := commonSpec(object)
	hosts := hostnames(names)
	out := &converted{}
	for i, ref := range spec.ParentRefs {
		a := c.attach(object, ref, hosts)
		if a != nil {
			a.index = i
			out.attachments = append(out.attachments, a)
		} else if fault := c.parentFault(object.Namespace, ref); fault != "" {
			out.problems = append(out.problems,
				newProblem(object, parentField(i), config.Warning, verdict{message: fault}))
		}
	}
	for _, ref := range c.defaultParents(object, spec) {
		if a := c.attach(object, ref, hosts); a != nil && a.accepted.ok() {
			out.attachments = append(out.attachments, a)
		}
	}
	both := c.readRoute(object, hosts, out.attachments)
	for _, r := range both.all() {
		out.refs = append(out.refs, r.refs...)
	}
	out.objects = c.virtualServices(object, hosts, out.attachments, both)
	out.status = routeStatus(object, out.attachments, both)
	out.addProblems(object, both)
	return out
}

// parentField returns the path of the parentRef with this index in a route.
func parentField(index int) string { return fmt.Sprintf("spec.parentRefs[%d]", index) }

// addProblems adds an Error for each parent that does not accept the route, and for each failed
// reference. The first unsupported value of each conversion is an Error too, and each value
// without effect is a Warning. Equal ones are added once.
func (o *converted) addProblems(object *config.Config, both routeReaders) {
	for _, a := range o.attachments {
		if !a.accepted.ok() {
			o.problems = append(o.problems, newProblem(object, parentField(a.index), config.Error, a.accepted))
		}
	}
	seen := map[verdict]bool{}
	add := func(severity config.Severity, v verdict) {
		if !seen[v] {
			seen[v] = true
			o.problems = append(o.problems, newProblem(object, "", severity, v))
		}
	}
	for _, r := range both.all() {
		for _, v := range r.unresolved {
			add(config.Error, v)
		}
		if !r.supported.ok() {
			add(config.Error, r.supported)
		}
		for _, v := range r.ignored {
			add(config.Warning, v)
		}
	}
}

// rejected returns the failed verdict about unsupported values if no rule of the route can be used,
// and otherwise an empty verdict.
func (r *routeReader) rejected() verdict {
	if unusable := r.wrong - r.partial; unusable > 0 && unusable >= r.ruleCount() {
		return r.supported
	}
	return verdict{}
}

// ruleCount returns the number of rules of an HTTPRoute or GRPCRoute, and 0 for other routes, which
// have no unsupported rules.
func (r *routeReader) ruleCount() int {
	switch o := r.object.Spec.(type) {
	case *gatewayv1.HTTPRoute:
		return len(o.Spec.Rules)
	case *gatewayv1.GRPCRoute:
		return len(o.Spec.Rules)
	default:
		return 0
	}
}

// routeStatus returns the status of a route, with an entry for each attachment that has the
// conditions Accepted and ResolvedRefs. Accepted also fails if no rule can be used.
// PartiallyInvalid is set only if Accepted does not fail and a rule has unsupported values.
func routeStatus(object *config.Config, attachments []*attachment, both routeReaders) *Status {
	s := &gatewayv1.RouteStatus{}
	for _, a := range attachments {
		r := both.of(a)
		list := conditionList{generation: object.Generation}
		accepted := a.accepted
		accepted.worse(r.rejected())
		list.add(
			string(gatewayv1.RouteConditionAccepted),
			string(gatewayv1.RouteReasonAccepted),
			"The route is accepted",
			accepted,
		)
		list.add(
			string(gatewayv1.RouteConditionResolvedRefs),
			string(gatewayv1.RouteReasonResolvedRefs),
			"All references are resolved",
			r.resolved,
		)
		if r.wrong > 0 && accepted.ok() {
			list.set(string(gatewayv1.RouteConditionPartiallyInvalid), metav1.ConditionTrue, r.supported.reason,
				"Requests of a rule are answered with an error: "+r.supported.message)
		}
		s.Parents = append(s.Parents, gatewayv1.RouteParentStatus{
			ParentRef: a.ref, ControllerName: gatewayv1.GatewayController(a.controller), Conditions: list.list,
		})
	}
	return &Status{Generation: object.Generation, Value: s}
}

// virtualServices returns the VirtualServices of a route: one for all served listeners of Gateways,
// and one for each parent in the mesh. Without hosts the first has the host "*". Parents that do
// not accept the route are left out; it returns nil if no parent is left.
func (c *Converter) virtualServices(
	object *config.Config,
	hosts []mesh.Hostname,
	attachments []*attachment,
	both routeReaders,
) []*config.Config {
	var list []*config.Config
	var gateways []string
	kind := strings.ToLower(strings.TrimSuffix(object.Kind.Name(), "Route"))
	for i, a := range attachments {
		switch {
		case !a.accepted.ok():
		case a.gateway != nil:
			for _, l := range a.listeners {
				if g := l.internal.Namespace + "/" + l.internal.Name; l.isServed() && !slices.Contains(gateways, g) {
					gateways = append(gateways, g)
				}
			}
		default:
			list = append(list, c.meshVirtualService(object, a, both.mesh, object.Name+"~"+kind+"~"+strconv.Itoa(i)))
		}
	}
	if len(gateways) == 0 {
		return list
	}
	r := both.gateways
	vs := &networking.VirtualService{
		Hosts: []string{"*"}, Gateways: gateways, ExportTo: []string{"*"}, Http: r.http, Tcp: r.tcp, Tls: r.tls,
	}
	if len(hosts) > 0 {
		vs.Hosts = nil
		for _, h := range hosts {
			vs.Hosts = append(vs.Hosts, string(h))
		}
	}
	key := config.Key{Kind: api.VirtualService, Namespace: object.Namespace, Name: object.Name + "~" + kind}
	return append(list, newObject(key, object, vs, &config.Extension{Source: object.Key, HTTP: r.extra}))
}

// meshVirtualService returns the VirtualService with this name for callers of the Service or
// ServiceEntry that is the parent of a, limited to the parentRef's port if it is set. It applies to
// all callers if the route is in the parent's namespace, otherwise only to callers in the route's
// namespace. TCP routes are left out beside TLS routes.
func (c *Converter) meshVirtualService(
	object *config.Config,
	a *attachment,
	r *routeReader,
	name string,
) *config.Config {
	vs := &networking.VirtualService{Gateways: []string{"mesh"}, ExportTo: []string{"*"}}
	if object.Namespace != a.parent.Namespace {
		vs.ExportTo = []string{"."}
	}
	hosts, _ := c.meshHosts(a.parent)
	for _, h := range hosts {
		vs.Hosts = append(vs.Hosts, string(h))
	}
	var port uint32
	if a.ref.Port != nil {
		port = uint32(*a.ref.Port) //nolint:gosec // validated by the API
	}
	for _, h := range r.http {
		one := proto.CloneOf(h)
		for _, m := range one.Match {
			m.Port = port
		}
		vs.Http = append(vs.Http, one)
	}
	for _, t := range r.tcp {
		one := proto.CloneOf(t)
		if port != 0 {
			one.Match = []*networking.L4MatchAttributes{{Port: port}}
		}
		vs.Tcp = append(vs.Tcp, one)
	}
	for _, t := range r.tls {
		one := proto.CloneOf(t)
		for _, m := range one.Match {
			m.Port = port
		}
		vs.Tls = append(vs.Tls, one)
	}
	if len(vs.Tls) > 0 {
		vs.Tcp = nil // Sidecars do not terminate the TLS of applications.
	}
	key := config.Key{Kind: api.VirtualService, Namespace: object.Namespace, Name: name}
	return newObject(key, object, vs, &config.Extension{Source: object.Key, HTTP: r.extra, Precedes: true})
}

// newObject returns the object with this spec that an object of the Gateway API, from, was
// converted to. It has the creation time of from, and an Origin that names it. It panics if spec
// cannot be encoded.
func newObject(key config.Key, from *config.Config, spec any, x *config.Extension) *config.Config {
	origin := from.Key.String()
	if from.Origin != "" {
		origin += ", " + from.Origin
	}
	object, err := config.New(config.Meta{Key: key, Created: from.Created, Origin: origin, Extension: x}, spec)
	if err != nil {
		panic(fmt.Sprintf("gatewayapi: %v", err)) // the spec is always encodable
	}
	return object
}
