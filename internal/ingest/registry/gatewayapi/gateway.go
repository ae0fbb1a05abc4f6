package gatewayapi

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	kubegateway "github.com/meshpilot/meshpilot/internal/kube/gateway"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// gateway is a Gateway of this controller, resolved.
type gateway struct {
	name
	object *config.Config
	spec   *gatewayv1.GatewaySpec
	class  classInfo
	// listeners are the listeners of the Gateway, then of attached ListenerSets in their order of
	// precedence.
	listeners []*listener
	// sets are the ListenerSets that refer to the Gateway, including the ones that it does not
	// allow.
	sets []*listenerSet
	// selector selects the proxies in the Gateway's namespace.
	selector map[string]string
	// service is the Service of its proxies, or nil if there is none.
	service *name
	// backend is the verdict about spec.tls.backend, and certificate the SDS name of the client
	// certificate for backends.
	backend     verdict
	certificate string
	accepted    verdict
	// deployable is the verdict about the name of the deployed objects.
	deployable verdict
	// bundles are the ConfigMaps with the joined CA certificates of its listeners, by key.
	bundles map[config.Key]*config.Config
	// references are the objects that the Gateway refers to, and outputs the keys of the objects
	// that it was converted to.
	references, outputs []config.Key
}

// listenerSet is a ListenerSet whose parent is a Gateway of this controller. allowed reports
// whether the Gateway allows ListenerSets of its namespace; accepted fails if not.
type listenerSet struct {
	object   *config.Config
	allowed  bool
	accepted verdict
}

// resolveGateway returns the resolved state of a Gateway, with its listeners, ListenerSets and
// verdicts, but without attached routes. It returns nil if the Gateway does not exist, its class is
// not of this project's controllers, or its proxies run elsewhere (class istio-remote).
func (c *Converter) resolveGateway(n name) *gateway {
	object := c.objects.all[gatewayKey(n)]
	if object == nil {
		return nil
	}
	spec := &config.Spec[*gatewayv1.Gateway](object).Spec
	class, ours := c.classOf(string(spec.GatewayClassName))
	if !ours || !class.deploys {
		return nil
	}
	g := &gateway{name: n, object: object, spec: spec, class: class, bundles: map[config.Key]*config.Config{}}
	c.selectProxies(g)
	for i, l := range spec.Listeners {
		g.listeners = append(g.listeners, c.newListener(g, object.Key, fmt.Sprintf("spec.listeners[%d]", i), l))
	}
	c.attachSets(g)
	findConflicts(g.listeners)
	c.setClientCertificate(g)
	c.checkParameters(g)
	g.checkNames(c.options)
	return g
}

// attachSets adds the ListenerSets that refer to the Gateway to g.sets: the oldest first, then by
// namespace and name. It adds the listeners of the sets that the Gateway allows to g.listeners; any
// other set gets a failed verdict.
func (c *Converter) attachSets(g *gateway) {
	var list []*config.Config
	for n := range c.indexes.sets.Values(g.name) {
		if object := c.objects.all[setKey(n)]; object != nil {
			list = append(list, object)
		}
	}
	slices.SortFunc(list, func(a, b *config.Config) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, object := range list {
		s := &listenerSet{object: object, allowed: c.allowsSet(g, object.Namespace)}
		g.sets = append(g.sets, s)
		if !s.allowed {
			s.accepted = verdict{
				string(gatewayv1.ListenerSetReasonNotAllowed),
				"spec.parentRef: spec.allowedListeners of the Gateway does not allow ListenerSets of this namespace",
			}
			continue
		}
		spec := &config.Spec[*gatewayv1.ListenerSet](object).Spec
		for i, e := range spec.Listeners {
			g.listeners = append(
				g.listeners,
				c.newListener(g, object.Key, fmt.Sprintf("spec.listeners[%d]", i), gatewayv1.Listener(e)),
			)
		}
	}
}

// allowsSet reports whether a Gateway allows ListenerSets of a namespace, by the names or labels in
// allowedListeners. By default it allows none.
func (c *Converter) allowsSet(g *gateway, namespace string) bool {
	if g.spec.AllowedListeners == nil || g.spec.AllowedListeners.Namespaces == nil {
		return false
	}
	n := g.spec.AllowedListeners.Namespaces
	return c.fromNamespaces(g.Namespace, n.From, n.Selector, gatewayv1.NamespacesFromNone)(namespace)
}

// Labels of the proxies of a Gateway.
const (
	gatewayNameLabel    = "gateway.networking.k8s.io/gateway-name"
	oldGatewayNameLabel = "istio.io/gateway-name"
)

// selectProxies sets g.selector, the labels of the proxies that serve a Gateway, and g.service, the
// Service of its addresses, which it adds to g.references. By default these are the label with its
// name and the deployed Service, or nil if none is deployed. If an address of type Hostname names a
// Service, g.service is that. Its selector, unless empty, is used if it is in the Gateway's
// namespace.
func (c *Converter) selectProxies(g *gateway) {
	g.selector = map[string]string{gatewayNameLabel: g.Name}
	if manual, found := c.manualService(g); found {
		g.service = &manual
		k := serviceKey(manual)
		g.references = append(g.references, k)
		if s := specOf[*corev1.Service](c.objects.all[k]); s != nil && len(s.Spec.Selector) > 0 &&
			manual.Namespace == g.Namespace {
			g.selector = s.Spec.Selector
		}
		return
	}
	if c.options.Deploys {
		n := name{Namespace: g.Namespace, Name: ServiceName(g.object, string(g.spec.GatewayClassName))}
		g.service = &n
		g.references = append(g.references, serviceKey(n))
	}
}

// isDeployed reports whether proxies must be deployed for the Gateway: deployment is enabled, and
// no address of type Hostname names a Service.
func (g *gateway) isDeployed(o Options) bool {
	if !o.Deploys {
		return false
	}
	_, manual := o.hostnameAddress(g.spec.Addresses)
	return !manual
}

// serviceAccount returns the name of the service account of the proxies that are deployed for the
// Gateway, or "" if none are: any account of the namespace may then run them.
func (g *gateway) serviceAccount(o Options) string {
	if !g.isDeployed(o) {
		return ""
	}
	return kubegateway.ServiceAccountName(
		g.object.Annotations, ServiceName(g.object, string(g.spec.GatewayClassName)),
	)
}

// hostnameAddress returns the value of the first address of type Hostname that has one, and whether
// there is one. If o.IgnoreHostnames is set, there is none.
func (o Options) hostnameAddress(list []gatewayv1.GatewaySpecAddress) (host string, found bool) {
	if o.IgnoreHostnames {
		return "", false
	}
	for _, a := range list {
		if a.Type != nil && *a.Type == gatewayv1.HostnameAddressType && a.Value != "" {
			return a.Value, true
		}
	}
	return "", false
}

// serviceKey returns the key of the Service with this name.
func serviceKey(n name) config.Key {
	return config.Key{Kind: api.Service, Namespace: n.Namespace, Name: n.Name}
}

// routesAlike reports whether routes attached to a Gateway have the same conversion with versions g
// and o of it, so that they need not be converted again. The conversion includes the routes'
// statuses, which name the controller, and the DestinationRules for the Gateway's proxies. It
// returns false if either version has ListenerSets, or if exactly one of them is nil.
func (g *gateway) routesAlike(o *gateway) bool {
	if g == nil || o == nil {
		return g == o
	}
	return len(g.sets) == 0 && len(o.sets) == 0 && g.certificate == o.certificate && g.isDefault() == o.isDefault() &&
		maps.Equal(g.selector, o.selector) &&
		slices.EqualFunc(g.listeners, o.listeners, func(a, b *listener) bool {
			return a.spec.Name == b.spec.Name && a.spec.Port == b.spec.Port && a.spec.Protocol == b.spec.Protocol &&
				a.host == b.host && a.isServed() == b.isServed() && a.isPassthrough() == b.isPassthrough() &&
				reflect.DeepEqual(a.spec.AllowedRoutes, b.spec.AllowedRoutes)
		})
}

// carryAttached copies the attached routes of each listener from old, the previous version of the
// Gateway. routesAlike must have returned true for the two versions.
func (g *gateway) carryAttached(old *gateway) {
	for i, l := range g.listeners {
		l.attached = maps.Clone(old.listeners[i].attached)
	}
}
