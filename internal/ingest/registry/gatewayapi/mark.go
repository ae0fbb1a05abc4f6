package gatewayapi

import (
	"maps"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// markClass marks a GatewayClass and the Gateways of that class for conversion.
func (c *Converter) markClass(class string) {
	c.dirty.classes[class] = struct{}{}
	for n := range c.indexes.class.Values(class) {
		c.dirty.gateways[n] = struct{}{}
	}
}

// markGateway updates the index of classes and marks a Gateway. was or is is nil if it is new or
// deleted; then it also marks the routes and ListenerSets that refer to it, because they report a
// parent that does not exist.
func (c *Converter) markGateway(n name, was, is *gatewayv1.Gateway) {
	if was != nil {
		c.indexes.class.Remove(string(was.Spec.GatewayClassName), n)
	}
	if is != nil {
		c.indexes.class.Add(string(is.Spec.GatewayClassName), n)
	}
	c.dirty.gateways[n] = struct{}{}
	if was == nil || is == nil {
		c.markRoutesOf(gatewayKey(n))
		for s := range c.indexes.sets.Values(n) {
			c.dirty.lone[s] = struct{}{}
		}
	}
}

// markSet updates the indexes of ListenerSets by Gateway and namespace. It marks the set, its
// former and present Gateway, and the routes that refer to it. was or is is nil if it is new or
// deleted.
func (c *Converter) markSet(n name, was, is *gatewayv1.ListenerSet) {
	if was != nil {
		g := parentGateway(was)
		c.indexes.sets.Remove(g, n)
		c.dirty.gateways[g] = struct{}{}
		c.indexes.namespace.Remove(n.Namespace, setKey(n))
	}
	if is != nil {
		g := parentGateway(is)
		c.indexes.sets.Add(g, n)
		c.dirty.gateways[g] = struct{}{}
		c.indexes.namespace.Add(n.Namespace, setKey(n))
	}
	c.dirty.lone[n] = struct{}{}
	for r := range c.indexes.parent.Values(setKey(n)) {
		c.dirty.routes[r] = struct{}{}
	}
}

// parentGateway returns the name of the Gateway of a ListenerSet, which need not exist. For a
// parent of another kind it returns the empty name, which no Gateway has.
func parentGateway(s *gatewayv1.ListenerSet) name {
	ref := s.Spec.ParentRef
	if ref.Group != nil && *ref.Group != gatewayGroup || ref.Kind != nil && *ref.Kind != "Gateway" {
		return name{}
	}
	n := name{Namespace: s.Namespace, Name: string(s.Spec.ParentRef.Name)}
	if ns := s.Spec.ParentRef.Namespace; ns != nil && *ns != "" {
		n.Namespace = string(*ns)
	}
	return n
}

// markGrant stores a ReferenceGrant, or deletes it if now is nil, and marks the objects of other
// namespaces that refer to objects of its namespace.
func (c *Converter) markGrant(k config.Key, now *config.Config) {
	list := c.objects.grants[k.Namespace]
	if now == nil {
		delete(list, k.Name)
	} else {
		if list == nil {
			list = map[string]*config.Config{}
			c.objects.grants[k.Namespace] = list
		}
		list[k.Name] = now
	}
	for x := range c.indexes.foreign.Values(k.Namespace) {
		c.markKey(x)
	}
}

// markNamespace marks the routes and ListenerSets of a namespace, because listeners may select it
// by its labels, which have changed, and the Gateways with such listeners. It records whether the
// namespace exists.
func (c *Converter) markNamespace(namespace string, exists bool) {
	if exists {
		c.objects.namespaces[namespace] = struct{}{}
	} else {
		delete(c.objects.namespaces, namespace)
	}
	maps.Copy(c.dirty.gateways, c.indexes.selecting)
	for x := range c.indexes.namespace.Values(namespace) {
		c.markKey(x)
	}
}

// setSelecting records whether a Gateway selects the namespaces of its routes by labels.
func (c *Converter) setSelecting(n name, selects bool) {
	if selects {
		c.indexes.selecting[n] = struct{}{}
	} else {
		delete(c.indexes.selecting, n)
	}
}

// markHosts updates the index of the hosts of a ServiceEntry, which were was and are is, and marks
// the objects that refer to it or to one of these hosts.
func (c *Converter) markHosts(k config.Key, was, is []mesh.Hostname) {
	for _, h := range was {
		c.objects.hosts.Remove(h, k)
	}
	for _, h := range is {
		c.objects.hosts.Add(h, k)
	}
	for _, list := range [][]mesh.Hostname{was, is} {
		for _, h := range list {
			c.markReferences(hostKey(h))
		}
	}
	c.markReferences(k)
}

// hostKey returns the key by which references to a hostname are indexed.
func hostKey(h mesh.Hostname) config.Key { return config.Key{Kind: "Hostname", Name: string(h)} }

// markReferences marks the objects that refer to k, the routes of which it is a parent, and for a
// Service or ServiceEntry the policies that target it.
func (c *Converter) markReferences(k config.Key) {
	for x := range c.indexes.reference.Values(k) {
		c.markKey(x)
	}
	for x := range c.indexes.parent.Values(k) {
		c.dirty.routes[x] = struct{}{}
	}
	if k.Kind == api.Service || k.Kind == api.ServiceEntry {
		c.markTargets([]config.Key{k})
	}
}

// markKey marks a Gateway, GatewayClass, BackendTLSPolicy, InferencePool, XBackend or route for
// conversion. With an XBackend it marks the routes that refer to it, because they report its
// faults. For a ListenerSet it marks its Gateway, if the set exists. Other kinds are routes.
func (c *Converter) markKey(k config.Key) {
	switch {
	case k.Kind == api.KubernetesGateway:
		c.dirty.gateways[nameOf(k)] = struct{}{}
	case k.Kind == api.ListenerSet:
		if set := specOf[*gatewayv1.ListenerSet](c.objects.all[k]); set != nil {
			c.dirty.gateways[parentGateway(set)] = struct{}{}
		}
	case k.Kind == api.BackendTLSPolicy:
		c.dirty.policies[k] = struct{}{}
	case k.Kind == api.InferencePool:
		c.dirty.pools[k] = struct{}{}
	case k.Kind == api.XBackend:
		c.dirty.backends[k] = struct{}{}
		c.markReferences(k)
	case k.Kind == api.GatewayClass:
		c.dirty.classes[k.Name] = struct{}{}
	default:
		c.dirty.routes[k] = struct{}{}
	}
}

// markRoute replaces the parents of a route in the indexes by parent and by namespace, and marks
// it. It creates the state of a new route in c.routes. now is nil for a deleted route, whose state
// stays until flushRoute has deleted its objects.
func (c *Converter) markRoute(k config.Key, now *config.Config, parents []config.Key) {
	if old := c.routes[k]; old != nil {
		for _, p := range old.parents {
			c.indexes.parent.Remove(p, k)
		}
		old.parents = nil
	}
	if now == nil {
		c.indexes.namespace.Remove(k.Namespace, k)
	} else {
		c.indexes.namespace.Add(k.Namespace, k)
		if c.routes[k] == nil {
			c.routes[k] = new(routed)
		}
		c.routes[k].parents = parents
		for _, p := range parents {
			c.indexes.parent.Add(p, k)
		}
	}
	c.dirty.routes[k] = struct{}{}
}

// setReferences replaces, in the indexes, the objects that the object of refers to, was, by is.
// References to other namespaces are indexed by namespace too.
func (c *Converter) setReferences(of config.Key, was, is []config.Key) {
	for _, k := range was {
		c.indexes.reference.Remove(k, of)
		if k.Namespace != of.Namespace {
			c.indexes.foreign.Remove(k.Namespace, of)
		}
	}
	for _, k := range is {
		c.indexes.reference.Add(k, of)
		if k.Namespace != of.Namespace {
			c.indexes.foreign.Add(k.Namespace, of)
		}
	}
}
