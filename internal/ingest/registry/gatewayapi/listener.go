package gatewayapi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// listener is one listener of a Gateway or of a ListenerSet that is attached to it.
type listener struct {
	// parent is the Gateway or ListenerSet that contains it.
	parent config.Key
	spec   gatewayv1.Listener
	// field is the path of the listener in its object.
	field string
	// internal is the key of the resulting Gateway.
	internal config.Key
	host     mesh.Hostname // "*" without a hostname
	// kinds are the kinds of routes that it supports and allows.
	kinds []gatewayv1.RouteGroupKind
	// namespaces selects the namespaces of routes; nil allows none.
	namespaces func(namespace string) bool
	// routeNamespaces are the known ones of them, sorted, or "*" for all.
	routeNamespaces []string
	// certificates are the SDS names of its certificates, and clients is the validation of client
	// certificates.
	certificates []string
	clients      clientValidation

	accepted, resolved, conflict verdict
	// attached are the routes that are attached to it.
	attached map[config.Key]struct{}
}

// isServed reports whether proxies serve the listener: it is accepted, conflicts with no other, and
// refers to certificates, and to CA certificates for clients, if it needs any. These need not exist
// yet: proxies refuse connections until they have them.
func (l *listener) isServed() bool {
	return l.accepted.ok() && l.conflict.ok() &&
		(!l.usesCertificates() || l.usesWorkloadCertificate() || len(l.certificates) > 0) &&
		(l.clients.verdict.ok() || l.clients.authority != "")
}

// isProgrammed reports whether proxies serve the listener and all its references are resolved.
// Route kinds that are not supported do not matter.
func (l *listener) isProgrammed() bool {
	return l.isServed() && l.clients.verdict.ok() &&
		(l.resolved.ok() || l.resolved.reason == string(gatewayv1.ListenerReasonInvalidRouteKinds))
}

// isPassthrough reports whether the listener forwards TLS without terminating it: protocol TLS in
// mode Passthrough. It returns false for HTTPS.
func (l *listener) isPassthrough() bool {
	return l.spec.Protocol == gatewayv1.TLSProtocolType && l.spec.TLS != nil && l.spec.TLS.Mode != nil &&
		*l.spec.TLS.Mode == gatewayv1.TLSModePassthrough
}

// usesCertificates reports whether the listener terminates TLS: protocol HTTPS, or TLS in another
// mode than Passthrough.
func (l *listener) usesCertificates() bool {
	return l.spec.Protocol == gatewayv1.HTTPSProtocolType ||
		l.spec.Protocol == gatewayv1.TLSProtocolType && !l.isPassthrough()
}

// supportedKinds returns the kinds of routes that listeners of a protocol support, or nil for an
// unknown protocol. These are HTTPRoute and GRPCRoute for HTTP and HTTPS, and TLSRoute, TCPRoute
// and UDPRoute for TLS, TCP and UDP.
func supportedKinds(p gatewayv1.ProtocolType) []api.Kind {
	switch p {
	case gatewayv1.HTTPProtocolType, gatewayv1.HTTPSProtocolType:
		return []api.Kind{api.HTTPRoute, api.GRPCRoute}
	case gatewayv1.TLSProtocolType:
		return []api.Kind{api.TLSRoute}
	case gatewayv1.TCPProtocolType:
		return []api.Kind{api.TCPRoute}
	case gatewayv1.UDPProtocolType:
		return []api.Kind{api.UDPRoute}
	default:
		return nil
	}
}

// gatewayGroup is the API group of the Gateway API.
const gatewayGroup = gatewayv1.Group(gatewayv1.GroupName)

// newListener returns the resolved state of one listener of Gateway g. in is the Gateway or
// ListenerSet that contains it, field its path there. Its verdicts fail for an unsupported
// protocol, route kind, selector, option or certificate. Secrets are added to g.references.
func (c *Converter) newListener(g *gateway, in config.Key, field string, spec gatewayv1.Listener) *listener {
	l := &listener{parent: in, spec: spec, field: field, host: "*", attached: map[config.Key]struct{}{}}
	if h := spec.Hostname; h != nil && *h != "" {
		l.host = mesh.Hostname(strings.ToLower(string(*h)))
	}
	section := string(spec.Name)
	if in.Kind == api.ListenerSet {
		section = in.Namespace + "~" + in.Name + "~" + section
	}
	l.internal = config.Key{Kind: api.Gateway, Namespace: g.Namespace, Name: g.Name + internalName + section}
	kinds := supportedKinds(spec.Protocol)
	if kinds == nil {
		l.accepted = verdict{
			string(gatewayv1.ListenerReasonUnsupportedProtocol),
			fmt.Sprintf("protocol: %q is not supported", spec.Protocol),
		}
	}
	l.setKinds(kinds)
	l.namespaces = c.namespaceSelector(in.Namespace, spec.AllowedRoutes)
	l.routeNamespaces = c.routeNamespaces(l)
	l.accepted.worse(checkSelector(spec.AllowedRoutes))
	if spec.Protocol == gatewayv1.HTTPSProtocolType && spec.TLS != nil && spec.TLS.Mode != nil &&
		*spec.TLS.Mode == gatewayv1.TLSModePassthrough {
		l.accepted.worse(verdict{string(gatewayv1.ListenerReasonUnsupportedValue),
			"tls.mode: Passthrough is not supported with protocol HTTPS"})
	}
	l.accepted.worse(l.checkOptions())
	if l.usesCertificates() && !l.usesWorkloadCertificate() {
		c.setCertificates(g, l)
		l.clients = c.clientValidation(g, spec.Port)
		l.resolved.worse(l.clients.verdict)
	}
	return l
}

// internalName is part of the name of every Gateway that a listener is converted to, as in Istio:
// VirtualServices can refer to it.
const internalName = "-istio-autogenerated-k8s-gateway-"

// setKinds sets l.kinds, the kinds of routes that may attach, from spec.allowedRoutes.kinds, or to
// all supported kinds if that is empty. Kinds that the protocol does not support are left out and
// fail l.resolved.
func (l *listener) setKinds(supported []api.Kind) {
	group := gatewayGroup
	l.kinds = []gatewayv1.RouteGroupKind{}
	if l.spec.AllowedRoutes == nil || len(l.spec.AllowedRoutes.Kinds) == 0 {
		for _, k := range supported {
			l.kinds = append(l.kinds, gatewayv1.RouteGroupKind{Group: &group, Kind: gatewayv1.Kind(k)})
		}
		return
	}
	for i, k := range l.spec.AllowedRoutes.Kinds {
		if (k.Group == nil || *k.Group == group) && slices.Contains(supported, api.Kind(k.Kind)) {
			l.kinds = append(l.kinds, gatewayv1.RouteGroupKind{Group: &group, Kind: k.Kind})
			continue
		}
		l.resolved.worse(verdict{
			string(gatewayv1.ListenerReasonInvalidRouteKinds),
			fmt.Sprintf("allowedRoutes.kinds[%d]: routes of kind %q are not supported with protocol %s", i, k.Kind,
				l.spec.Protocol),
		})
	}
}

// allowsKind reports whether routes of a kind may attach to the listener.
func (l *listener) allowsKind(kind api.Kind) bool {
	return slices.ContainsFunc(l.kinds, func(k gatewayv1.RouteGroupKind) bool { return api.Kind(k.Kind) == kind })
}

// namespaceSelector returns a function that reports whether routes of a namespace may attach to a
// listener of an object in namespace own. Without allowedRoutes only routes of own may.
func (c *Converter) namespaceSelector(own string, allowed *gatewayv1.AllowedRoutes) func(string) bool {
	var from *gatewayv1.FromNamespaces
	var selector *metav1.LabelSelector
	if allowed != nil && allowed.Namespaces != nil {
		from, selector = allowed.Namespaces.From, allowed.Namespaces.Selector
	}
	return c.fromNamespaces(own, from, selector, gatewayv1.NamespacesFromSame)
}

// routeNamespaces returns the namespaces whose routes may attach to l, sorted: "*" for all, and with
// a selector the selected ones among the namespaces that exist.
func (c *Converter) routeNamespaces(l *listener) []string {
	candidates := []string{l.parent.Namespace}
	switch l.namespacesFrom() {
	case gatewayv1.NamespacesFromAll:
		return []string{"*"}
	case gatewayv1.NamespacesFromSelector:
		candidates = slices.Sorted(maps.Keys(c.objects.namespaces))
	}
	return slices.DeleteFunc(candidates, func(ns string) bool { return !l.namespaces(ns) })
}

// namespacesFrom returns allowedRoutes.namespaces.from of the listener, by default Same.
func (l *listener) namespacesFrom() gatewayv1.FromNamespaces {
	if a := l.spec.AllowedRoutes; a != nil && a.Namespaces != nil && a.Namespaces.From != nil {
		return *a.Namespaces.From
	}
	return gatewayv1.NamespacesFromSame
}

// selectsNamespaces reports whether a listener of the Gateway selects the namespaces of its routes
// by their labels. It returns false for nil.
func (g *gateway) selectsNamespaces() bool {
	return g != nil && slices.ContainsFunc(g.listeners, func(l *listener) bool {
		return l.namespacesFrom() == gatewayv1.NamespacesFromSelector
	})
}

// checkSelector returns a failed verdict if allowedRoutes selects namespaces by an invalid label
// selector, and otherwise an empty verdict. An invalid selector selects no namespace.
func checkSelector(allowed *gatewayv1.AllowedRoutes) verdict {
	if allowed == nil || allowed.Namespaces == nil || allowed.Namespaces.From == nil ||
		*allowed.Namespaces.From != gatewayv1.NamespacesFromSelector {
		return verdict{}
	}
	if _, err := metav1.LabelSelectorAsSelector(allowed.Namespaces.Selector); err != nil {
		return verdict{string(gatewayv1.ListenerReasonUnsupportedValue),
			fmt.Sprintf("allowedRoutes.namespaces.selector: %v", err)}
	}
	return verdict{}
}

// fromNamespaces returns a function that reports whether objects of a namespace are selected. own
// is the namespace that Same selects, byDefault applies if from is nil. An invalid selector and an
// unknown value select no namespace.
func (c *Converter) fromNamespaces(
	own string,
	from *gatewayv1.FromNamespaces,
	selector *metav1.LabelSelector,
	byDefault gatewayv1.FromNamespaces,
) func(string) bool {
	if from != nil {
		byDefault = *from
	}
	switch byDefault {
	case gatewayv1.NamespacesFromAll:
		return func(string) bool { return true }
	case gatewayv1.NamespacesFromSame:
		return func(ns string) bool { return ns == own }
	case gatewayv1.NamespacesFromSelector:
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return func(string) bool { return false }
		}
		return func(ns string) bool { return s.Matches(labels.Set(c.namespaceLabels(ns))) }
	default:
		return func(string) bool { return false }
	}
}

// namespaceLabels returns the labels of a namespace in a new map. Every namespace has the label
// with its name, even if there is no object.
func (c *Converter) namespaceLabels(ns string) map[string]string {
	of := map[string]string{}
	if object := specOf[*corev1.Namespace](c.objects.all[config.Key{Kind: api.Namespace, Name: ns}]); object != nil {
		for k, v := range object.Labels {
			of[k] = v
		}
	}
	of[corev1.LabelMetadataName] = ns
	return of
}

// transport is the part of an address on which listeners conflict: a port of TCP or UDP.
type transport struct {
	port int32
	udp  bool
}

// protocolClass returns how listeners of a protocol share a port: "TLS" by server name for HTTPS
// and TLS, "HTTP" by the host of requests. Other protocols are returned unchanged: their listeners
// share no port.
func protocolClass(p gatewayv1.ProtocolType) string {
	switch p {
	case gatewayv1.HTTPSProtocolType, gatewayv1.TLSProtocolType:
		return "TLS"
	default:
		return string(p)
	}
}

// findConflicts fails l.conflict of each listener that conflicts with an earlier one. Listeners on
// one port conflict if their protocols cannot share it or their hostnames are equal. TCP or UDP
// listeners share no port, except UDP with another protocol. Listeners of unsupported protocols are
// ignored.
func findConflicts(list []*listener) {
	first := map[transport]*listener{}
	hosts := map[transport]map[mesh.Hostname]bool{}
	for _, l := range list {
		if l.accepted.reason == string(gatewayv1.ListenerReasonUnsupportedProtocol) {
			continue
		}
		at := transport{l.spec.Port, l.spec.Protocol == gatewayv1.UDPProtocolType}
		class := protocolClass(l.spec.Protocol)
		switch f := first[at]; {
		case f == nil:
			first[at], hosts[at] = l, map[mesh.Hostname]bool{l.host: true}
		case protocolClass(f.spec.Protocol) != class:
			l.conflict = verdict{
				string(gatewayv1.ListenerReasonProtocolConflict),
				fmt.Sprintf("port: %d is used with protocol %s by listener %q, which takes precedence", at.port,
					f.spec.Protocol, f.spec.Name),
			}
		case hosts[at][l.host] || class != "TLS" && class != string(gatewayv1.HTTPProtocolType):
			l.conflict = verdict{
				string(gatewayv1.ListenerReasonHostnameConflict),
				fmt.Sprintf("hostname: %q of port %d is used by another listener, which takes precedence", l.host,
					at.port),
			}
		default:
			hosts[at][l.host] = true
		}
	}
}
