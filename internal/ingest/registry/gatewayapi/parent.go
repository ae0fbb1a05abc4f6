package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// commonSpec returns the common part of a route's spec and its hostnames, nil for TCPRoutes and
// UDPRoutes. It panics if c is not a route.
func commonSpec(c *config.Config) (gatewayv1.CommonRouteSpec, []gatewayv1.Hostname) {
	switch r := c.Spec.(type) {
	case *gatewayv1.HTTPRoute:
		return r.Spec.CommonRouteSpec, r.Spec.Hostnames
	case *gatewayv1.GRPCRoute:
		return r.Spec.CommonRouteSpec, r.Spec.Hostnames
	case *gatewayv1.TLSRoute:
		return r.Spec.CommonRouteSpec, r.Spec.Hostnames
	case *gatewayv1.TCPRoute:
		return r.Spec.CommonRouteSpec, nil
	case *gatewayv1.UDPRoute:
		return r.Spec.CommonRouteSpec, nil
	default:
		panic(fmt.Sprintf("gatewayapi: spec of %s is %T", c.Key, c.Spec))
	}
}

// parentKey returns the key of the object that a parentRef of a route in namespace own names, by
// default a Gateway in that namespace. The object need not exist. ok is false for kinds other than
// Gateway, ListenerSet, Service and ServiceEntry; then k has no kind.
func parentKey(own string, ref gatewayv1.ParentReference) (k config.Key, ok bool) {
	group, kind := gatewayGroup, gatewayv1.Kind("Gateway")
	if ref.Group != nil {
		group = *ref.Group
	}
	if ref.Kind != nil {
		kind = *ref.Kind
	}
	k = config.Key{Namespace: own, Name: string(ref.Name)}
	if ref.Namespace != nil && *ref.Namespace != "" {
		k.Namespace = string(*ref.Namespace)
	}
	switch {
	case group == gatewayGroup && kind == "Gateway":
		k.Kind = api.KubernetesGateway
	case group == gatewayGroup && kind == "ListenerSet":
		k.Kind = api.ListenerSet
	case group == "" && kind == "Service":
		k.Kind = api.Service
	case group == "networking.istio.io" && kind == "ServiceEntry":
		k.Kind = api.ServiceEntry
	default:
		return k, false
	}
	return k, true
}

// routeParents returns the keys of all parents of a route that are of supported kinds (parentKey),
// without duplicates, and defaultParent if it uses default Gateways. It returns nil if c is nil.
func routeParents(c *config.Config) []config.Key {
	if c == nil {
		return nil
	}
	spec, _ := commonSpec(c)
	var list []config.Key
	for _, ref := range spec.ParentRefs {
		if k, ok := parentKey(c.Namespace, ref); ok && !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	if spec.UseDefaultGateways == gatewayv1.GatewayDefaultScopeAll {
		list = append(list, defaultParent())
	}
	return list
}

// attachment is a route at one of its parentRefs.
type attachment struct {
	ref        gatewayv1.ParentReference
	index      int // of the parentRef
	controller string
	parent     config.Key
	accepted   verdict
	// gateway and listeners are the objects to which the route is attached, if the parent is a
	// Gateway or ListenerSet.
	gateway   *gateway
	listeners []*listener
}

// attach resolves a parentRef of a route with these hosts. The result has the listeners to which
// the route attaches, or a failed verdict, for instance if its Service does not exist. It returns
// nil if the kind is no parent, or if the Gateway or ListenerSet is not known or not of this
// controller.
func (c *Converter) attach(route *config.Config, ref gatewayv1.ParentReference, hosts []mesh.Hostname) *attachment {
	k, ok := parentKey(route.Namespace, ref)
	if !ok {
		return nil
	}
	a := &attachment{ref: ref, parent: k, controller: ControllerName}
	switch k.Kind {
	case api.KubernetesGateway:
		a.gateway = c.gateways[nameOf(k)]
	case api.ListenerSet:
		set := specOf[*gatewayv1.ListenerSet](c.objects.all[k])
		if set == nil {
			return nil
		}
		a.gateway = c.gateways[parentGateway(set)]
	default:
		return c.attachToMesh(route, a)
	}
	if a.gateway == nil {
		return nil
	}
	a.controller = a.gateway.class.controller
	a.selectListeners(route, hosts)
	return a
}

// parentFault returns why a parentRef that attach resolved to nil cannot be used, or "" if another
// controller may be responsible. The reasons are an object that does not exist and a kind of the
// Gateway API that is no parent. own is the route's namespace.
func (c *Converter) parentFault(own string, ref gatewayv1.ParentReference) string {
	k, ok := parentKey(own, ref)
	switch {
	case !ok && (ref.Group == nil || *ref.Group == gatewayGroup):
		return fmt.Sprintf("kind %q is not a parent of routes", *ref.Kind)
	case ok && c.objects.all[k] == nil:
		return fmt.Sprintf("%s %s/%s does not exist", k.Kind.Name(), k.Namespace, k.Name)
	default:
		return ""
	}
}

// selectListeners appends to a.listeners the listeners of the parent that the route attaches to, by
// name and port of the reference, then by allowed kind and namespace, then by hosts. A route
// without hosts matches any. If none is left, a.accepted fails with the reason of that step.
func (a *attachment) selectListeners(route *config.Config, hosts []mesh.Hostname) {
	var named, allowed []*listener
	for _, l := range a.gateway.listeners {
		if l.parent == a.parent &&
			(a.ref.SectionName == nil || *a.ref.SectionName == "" || *a.ref.SectionName == l.spec.Name) &&
			(a.ref.Port == nil || *a.ref.Port == l.spec.Port) {
			named = append(named, l)
		}
	}
	if len(named) == 0 {
		a.accepted = verdict{string(gatewayv1.RouteReasonNoMatchingParent), a.noListener()}
		return
	}
	for _, l := range named {
		if l.allowsKind(route.Kind) && l.namespaces(route.Namespace) {
			allowed = append(allowed, l)
		}
	}
	if len(allowed) == 0 {
		a.accepted = verdict{
			string(gatewayv1.RouteReasonNotAllowedByListeners),
			fmt.Sprintf("allowedRoutes of the listener does not allow routes of kind %s in namespace %s",
				route.Kind, route.Namespace),
		}
		return
	}
	for _, l := range allowed {
		if len(hosts) == 0 || l.host == "*" || slices.ContainsFunc(hosts, l.host.Matches) {
			a.listeners = append(a.listeners, l)
		}
	}
	if len(a.listeners) == 0 {
		a.accepted = verdict{
			string(gatewayv1.RouteReasonNoMatchingListenerHostname), noHostname(hosts, allowed),
		}
	}
}

// noListener returns the message about a parentRef that selects no listener: what it requires, and
// the parent's first listeners. If the Gateway does not allow the parent, it has none.
func (a *attachment) noListener() string {
	var wanted, have []string
	if a.ref.SectionName != nil && *a.ref.SectionName != "" {
		wanted = append(wanted, fmt.Sprintf("the name %q (sectionName)", *a.ref.SectionName))
	}
	if a.ref.Port != nil {
		wanted = append(wanted, fmt.Sprintf("port %d", *a.ref.Port))
	}
	for _, l := range a.gateway.listeners {
		if l.parent == a.parent && len(have) < maxNamed {
			have = append(have, fmt.Sprintf("%q (port %d)", l.spec.Name, l.spec.Port))
		}
	}
	parent := fmt.Sprintf("%s %s/%s", a.parent.Kind.Name(), a.parent.Namespace, a.parent.Name)
	if len(have) == 0 {
		return parent + " has no listeners, or its Gateway does not allow it"
	}
	return fmt.Sprintf("No listener of %s has %s; listeners: %s", parent,
		strings.Join(wanted, " and "), strings.Join(have, ", "))
}

// noHostname returns the message about a route whose hostnames match no listener. It names at most
// maxNamed hostnames and listeners.
func noHostname(hosts []mesh.Hostname, listeners []*listener) string {
	var of, have []string
	for _, h := range hosts[:min(len(hosts), maxNamed)] {
		of = append(of, fmt.Sprintf("%q", h))
	}
	for _, l := range listeners[:min(len(listeners), maxNamed)] {
		have = append(have, fmt.Sprintf("%q", l.host))
	}
	return fmt.Sprintf("No hostname of the route (%s) matches the hostname of a listener (%s)",
		strings.Join(of, ", "), strings.Join(have, ", "))
}

// maxNamed limits the number of hostnames and listeners that a message names.
const maxNamed = 8

// attachToMesh returns a, the attachment of a route to a Service or ServiceEntry. a.accepted fails
// if that does not exist or lacks the port, and for a UDPRoute.
func (c *Converter) attachToMesh(route *config.Config, a *attachment) *attachment {
	_, exists := c.meshHosts(a.parent)
	switch {
	case !exists:
		a.accepted = verdict{
			string(gatewayv1.RouteReasonNoMatchingParent),
			fmt.Sprintf("%s %s does not exist in namespace %s", a.parent.Kind, a.parent.Name, a.parent.Namespace),
		}
	case a.ref.Port != nil && !c.hasPort(a.parent, uint32(*a.ref.Port)): //nolint:gosec // validated by the API
		a.accepted = verdict{
			string(gatewayv1.RouteReasonNoMatchingParent),
			fmt.Sprintf("%s %s has no port %d", a.parent.Kind, a.parent.Name, *a.ref.Port),
		}
	case route.Kind == api.UDPRoute:
		a.accepted = verdict{string(gatewayv1.RouteReasonUnsupportedValue), "sidecars do not capture UDP"}
	}
	return a
}
