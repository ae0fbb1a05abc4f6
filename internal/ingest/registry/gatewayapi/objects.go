package gatewayapi

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// isRoute reports whether objects of a kind are routes of the Gateway API: HTTPRoute, GRPCRoute,
// TLSRoute, TCPRoute or UDPRoute.
func isRoute(kind api.Kind) bool {
	switch kind {
	case api.HTTPRoute, api.GRPCRoute, api.TLSRoute, api.TCPRoute, api.UDPRoute:
		return true
	default:
		return false
	}
}

// isInput reports whether the Converter reads objects of a kind. It reads EndpointSlices only if
// gateways are deployed, and InferencePools only if they are enabled.
func (c *Converter) isInput(kind api.Kind) bool {
	switch kind {
	case api.EndpointSlice:
		return c.options.Deploys
	case api.InferencePool:
		return c.options.InferencePools
	case api.GatewayClass,
		api.KubernetesGateway,
		api.ListenerSet,
		api.ReferenceGrant,
		api.BackendTLSPolicy,
		api.XBackendTrafficPolicy,
		api.XMesh,
		api.XBackend,
		api.Namespace,
		api.Service,
		api.ServiceEntry,
		api.ServiceImport,
		api.Secret,
		api.ConfigMap:
		return true
	default:
		return isRoute(kind)
	}
}

// objects are the objects that were read.
type objects struct {
	all map[config.Key]*config.Config
	// grants are the ReferenceGrants by namespace and name.
	grants map[string]map[string]*config.Config
	// namespaces are the names of the Namespaces.
	namespaces map[string]struct{}
	// hosts are the ServiceEntries by each of their hosts.
	hosts registry.Index[mesh.Hostname, config.Key]
	// slices are the EndpointSlices by Service.
	slices registry.Index[config.Key, config.Key]
	// policies are the BackendTLSPolicies and XBackendTrafficPolicies by the objects that they
	// target.
	policies registry.Index[config.Key, config.Key]
}

// newObjects returns objects without an object.
func newObjects() objects {
	return objects{
		all: map[config.Key]*config.Config{}, grants: map[string]map[string]*config.Config{},
		namespaces: map[string]struct{}{},
	}
}

// indexes find the objects that a change affects.
type indexes struct {
	class     registry.Index[string, name]           // Gateways by class
	sets      registry.Index[name, name]             // ListenerSets by Gateway
	parent    registry.Index[config.Key, config.Key] // routes by Gateway, ListenerSet, Service or ServiceEntry
	reference registry.Index[config.Key, config.Key] // objects by the objects that they refer to
	foreign   registry.Index[string, config.Key]     // objects by the other namespaces that they refer to
	namespace registry.Index[string, config.Key]     // routes and ListenerSets by their own namespace
	selecting map[name]struct{}                      // Gateways that select namespaces by labels
}

// dirty are the objects to convert again.
type dirty struct {
	gateways map[name]struct{}
	routes   map[config.Key]struct{}
	classes  map[string]struct{}
	statuses map[name]struct{} // Gateways whose status alone must be computed again
	policies map[config.Key]struct{}
	targets  map[config.Key]struct{} // targets of policies
	pools    map[config.Key]struct{} // InferencePools
	backends map[config.Key]struct{} // XBackends
	apart    map[config.Key]struct{} // XMeshes, which nothing else depends on
	lone     map[name]struct{}       // ListenerSets, whose Gateway may not exist
}

// newDirty returns a dirty with nothing marked.
func newDirty() dirty {
	return dirty{
		gateways: map[name]struct{}{}, routes: map[config.Key]struct{}{}, classes: map[string]struct{}{},
		statuses: map[name]struct{}{}, policies: map[config.Key]struct{}{}, targets: map[config.Key]struct{}{},
		lone:  map[name]struct{}{},
		pools: map[config.Key]struct{}{}, backends: map[config.Key]struct{}{}, apart: map[config.Key]struct{}{},
	}
}

// nameOf returns the namespace and name in k.
func nameOf(k config.Key) name { return name{Namespace: k.Namespace, Name: k.Name} }

// gatewayKey returns the key of the Gateway of the Gateway API with this name.
func gatewayKey(n name) config.Key {
	return config.Key{Kind: api.KubernetesGateway, Namespace: n.Namespace, Name: n.Name}
}

// setKey returns the key of the ListenerSet with this name.
func setKey(n name) config.Key {
	return config.Key{Kind: api.ListenerSet, Namespace: n.Namespace, Name: n.Name}
}

// storeObject stores the object of an event, or deletes it, and marks what must be converted again.
// It ignores an unchanged object (same Hash other than 0, Origin and Generation), and the deletion
// of an unknown one. It panics, before the state changes, if the object cannot be read.
func (c *Converter) storeObject(op mesh.Op, object *config.Config) {
	k, old, now := object.Key, c.objects.all[object.Key], object
	if op == mesh.Delete {
		now = nil
	}
	if old == nil && now == nil || old != nil && now != nil && old.Hash != 0 && old.Hash == now.Hash &&
		old.Origin == now.Origin && old.Generation == now.Generation {
		return
	}
	mark := c.change(k, old, now) // panics for an object that cannot be read, before the state changes
	if now == nil {
		delete(c.objects.all, k)
	} else {
		c.objects.all[k] = now
	}
	mark()
}

// change returns a function that updates the indexes and marks what depends on the object k. old is
// nil if it is new, now if it was deleted; a Namespace with unchanged labels marks nothing. change
// itself changes nothing, and panics if now has an unexpected type.
func (c *Converter) change(k config.Key, old, now *config.Config) func() {
	switch k.Kind {
	case api.GatewayClass:
		_ = specOf[*gatewayv1.GatewayClass](now)
		return func() { c.markClass(k.Name) }
	case api.KubernetesGateway:
		was, is := specOf[*gatewayv1.Gateway](old), specOf[*gatewayv1.Gateway](now)
		return func() { c.markGateway(nameOf(k), was, is) }
	case api.ListenerSet:
		was, is := specOf[*gatewayv1.ListenerSet](old), specOf[*gatewayv1.ListenerSet](now)
		return func() { c.markSet(nameOf(k), was, is) }
	case api.ReferenceGrant:
		_ = specOf[*gatewayv1.ReferenceGrant](now)
		return func() { c.markGrant(k, now) }
	case api.Namespace:
		was, is := specOf[*corev1.Namespace](old), specOf[*corev1.Namespace](now)
		if was != nil && is != nil && maps.Equal(was.Labels, is.Labels) {
			return func() {}
		}
		return func() { c.markNamespace(k.Name, is != nil) }
	case api.ServiceEntry:
		was, is := hostsOf(old), hostsOf(now)
		return func() { c.markHosts(k, was, is) }
	case api.BackendTLSPolicy, api.XBackendTrafficPolicy:
		was, is := targetsOf(old), targetsOf(now)
		return func() { c.markPolicy(k, was, is) }
	case api.EndpointSlice:
		was, is := specOf[*discoveryv1.EndpointSlice](old), specOf[*discoveryv1.EndpointSlice](now)
		return func() { c.markSlice(k, was, is) }
	case api.XMesh:
		_ = specOf[*gatewayx.XMesh](now)
		return func() { c.dirty.apart[k] = struct{}{} }
	case api.XBackend:
		_ = specOf[*gatewayx.XBackend](now)
		return func() { c.dirty.backends[k] = struct{}{}; c.markReferences(k) }
	case api.InferencePool:
		_ = specOf[*inferencev1.InferencePool](now)
		return func() { c.dirty.pools[k] = struct{}{}; c.markReferences(k) }
	case api.Service:
		_ = specOf[*corev1.Service](now)
	case api.ServiceImport:
		_ = specOf[*mcsv1beta1.ServiceImport](now)
	case api.Secret:
		_ = specOf[*corev1.Secret](now)
	case api.ConfigMap:
		_ = specOf[*corev1.ConfigMap](now)
	default: // routes
		refs := routeParents(now)
		return func() { c.markRoute(k, now, refs) }
	}
	return func() { c.markReferences(k) }
}

// specOf returns the object in c as a T, or the zero value if c is nil. It panics if c has another
// type.
func specOf[T any](c *config.Config) (none T) {
	if c == nil {
		return none
	}
	return config.Spec[T](c)
}

// hostsOf returns the hosts of a ServiceEntry as they are written, or nil if c is nil.
func hostsOf(c *config.Config) []mesh.Hostname {
	var list []mesh.Hostname
	if c != nil {
		for _, h := range config.Spec[*networking.ServiceEntry](c).GetHosts() {
			list = append(list, mesh.Hostname(h))
		}
	}
	return list
}

// isGranted reports whether the object from may refer to the object to: both are in one namespace,
// or a ReferenceGrant in the namespace of to allows it. The grant may name the object or all of its
// kind.
func (c *Converter) isGranted(from config.Key, to config.Key) bool {
	if from.Namespace == to.Namespace {
		return true
	}
	info, _ := api.Info(from.Kind)
	isFrom := func(group, kind string) bool { return group == info.Group && kind == from.Kind.Name() }
	for _, g := range c.objects.grants[to.Namespace] {
		if config.GrantsReference(g, from.Namespace, isFrom, to) {
			return true
		}
	}
	return false
}
