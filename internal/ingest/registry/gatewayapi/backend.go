package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// backend resolves a backendRef of a route to a destination; field is its path in the route. Kinds
// are Service, ServiceImport, ServiceEntry, Hostname and XBackend. It returns nil, with a failed
// verdict, for another kind, a reference that is not granted, or an unknown backend or port. It
// adds the objects that it refers to to r.refs. Without Options.ClusterSetHosts a ServiceImport is
// replaced by the Service of its name, which then has the endpoints of all clusters, as in Istio.
//
// A ServiceEntry with the host of a Service needs a ReferenceGrant for that too (checkHostGrant),
// because it is another name of the Service.
//
// A route needs no ReferenceGrant for its parents in the mesh (r.inMesh), as in Istio: its clients
// may call the backend directly, too.
func (r *routeReader) backend(
	field string,
	ref gatewayv1.BackendObjectReference,
) (*networking.Destination, verdict) {
	c, route := r.converter, r.object.Key
	group, kind := backendKind(ref)
	k := config.Key{Namespace: route.Namespace, Name: string(ref.Name)}
	if ref.Namespace != nil && *ref.Namespace != "" {
		k.Namespace = string(*ref.Namespace)
	}
	switch {
	case group == "" && kind == "Service":
		k.Kind = api.Service
	case group == "multicluster.x-k8s.io" && kind == "ServiceImport":
		k.Kind = api.ServiceImport
	case group == "networking.istio.io" && kind == "ServiceEntry":
		k.Kind = api.ServiceEntry
	case group == "networking.istio.io" && kind == "Hostname":
		return r.hostBackend(field, ref)
	case group == gatewayx.GroupName && kind == "XBackend":
		k.Kind = api.XBackend
	default:
		return nil, verdict{
			string(gatewayv1.RouteReasonInvalidKind),
			fmt.Sprintf("%s: kind %q of group %q is not a backend", field, kind, group),
		}
	}
	r.refs = append(r.refs, k)
	if !r.inMesh && !c.isGranted(route, k) {
		return nil, verdict{
			string(gatewayv1.RouteReasonRefNotPermitted),
			fmt.Sprintf("%s: no ReferenceGrant in namespace %s allows the reference to %s %s",
				field, k.Namespace, k.Kind, k.Name),
		}
	}
	if k.Kind == api.ServiceImport && !c.options.ClusterSetHosts {
		k.Kind = api.Service
		r.refs = append(r.refs, k)
	}
	if k.Kind == api.XBackend {
		return r.externalBackend(field, k, ref.Port)
	}
	hosts, exists := c.meshHosts(k)
	if !exists || len(hosts) == 0 {
		return nil, verdict{
			string(gatewayv1.RouteReasonBackendNotFound),
			fmt.Sprintf("%s: %s %s/%s does not exist", field, k.Kind, k.Namespace, k.Name),
		}
	}
	if k.Kind == api.ServiceEntry {
		if v := r.checkHostGrant(field, hosts[0], r.ownersOf(hosts[0])); !v.ok() {
			return nil, v
		}
	}
	return c.portOf(field, k, string(hosts[0]), ref.Port, route.Kind == api.UDPRoute)
}

// backendKind returns the group and kind of a reference. By default they are the core group ("")
// and Service.
func backendKind(ref gatewayv1.BackendObjectReference) (gatewayv1.Group, gatewayv1.Kind) {
	group, kind := gatewayv1.Group(""), gatewayv1.Kind("Service")
	if ref.Group != nil {
		group = *ref.Group
	}
	if ref.Kind != nil {
		kind = *ref.Kind
	}
	return group, kind
}

// portOf returns the destination of the backend k: its host and port. udp requires a UDP port. It
// returns nil, with a verdict, if the port is missing or unknown. field is the path of the
// reference.
func (c *Converter) portOf(
	field string,
	k config.Key,
	host string,
	port *int32,
	udp bool,
) (*networking.Destination, verdict) {
	if port == nil {
		return nil, verdict{string(gatewayv1.RouteReasonUnsupportedValue), field + ".port: is required"}
	}
	number := uint32(*port) //nolint:gosec // validated by the API
	if !c.hasPort(k, number) {
		return nil, verdict{
			string(gatewayv1.RouteReasonBackendNotFound),
			fmt.Sprintf("%s.port: %s %s/%s has no port %d", field, k.Kind, k.Namespace, k.Name, number),
		}
	}
	if udp && !c.hasUDPPort(k, number) {
		return nil, verdict{
			string(gatewayv1.RouteReasonBackendNotFound),
			fmt.Sprintf("%s.port: port %d of %s %s/%s is not UDP", field, number, k.Kind, k.Namespace, k.Name),
		}
	}
	return &networking.Destination{Host: host, Port: &networking.PortSelector{Number: number}}, verdict{}
}

// hasUDPPort reports whether a Service, ServiceImport or ServiceEntry has a UDP port with this
// number. It returns false for any other kind, and panics if the object does not exist.
func (c *Converter) hasUDPPort(k config.Key, number uint32) bool {
	switch o := c.objects.all[k].Spec.(type) {
	case *corev1.Service:
		return slices.ContainsFunc(o.Spec.Ports, func(p corev1.ServicePort) bool {
			return p.Port == int32(number) && p.Protocol == corev1.ProtocolUDP //nolint:gosec // a port
		})
	case *mcsv1beta1.ServiceImport:
		return slices.ContainsFunc(o.Spec.Ports, func(p mcsv1beta1.ServicePort) bool {
			return p.Port == int32(number) && p.Protocol == corev1.ProtocolUDP //nolint:gosec // a port
		})
	case *networking.ServiceEntry:
		return slices.ContainsFunc(o.Ports, func(p *networking.ServicePort) bool {
			return p.GetNumber() == number && strings.EqualFold(p.GetProtocol(), "UDP")
		})
	default:
		return false
	}
}

// hostBackend resolves a backend of kind Hostname: the host of a Service or ServiceEntry, in lower
// case. It returns nil, with a failed verdict, if a namespace or no port is set, no such host
// exists, or the reference is not granted. It does not check the port. It adds the objects that it
// looked up to r.refs. field is the path of the reference.
//
// Of several ServiceEntries with the host, one must be of the route's namespace or granted, unless
// it is also the host of a Service: then that Service must be.
func (r *routeReader) hostBackend(
	field string,
	ref gatewayv1.BackendObjectReference,
) (*networking.Destination, verdict) {
	host := mesh.Hostname(strings.ToLower(string(ref.Name)))
	r.refs = append(r.refs, hostKey(host))
	switch {
	case ref.Namespace != nil && *ref.Namespace != "":
		return nil, verdict{string(gatewayv1.RouteReasonUnsupportedValue),
			field + ".namespace: must not be set for a Hostname"}
	case ref.Port == nil:
		return nil, verdict{string(gatewayv1.RouteReasonUnsupportedValue), field + ".port: is required"}
	}
	owners := r.ownersOf(host)
	if len(owners) == 0 {
		return nil, verdict{
			string(gatewayv1.RouteReasonBackendNotFound),
			fmt.Sprintf("%s: no service has the host %q", field, host),
		}
	}
	if v := r.checkHostGrant(field, host, owners); !v.ok() {
		return nil, v
	}
	return &networking.Destination{
		Host: string(host), Port: &networking.PortSelector{Number: uint32(*ref.Port)}, //nolint:gosec // validated
	}, verdict{}
}

// checkHostGrant returns a failed verdict, which names field, unless one of the owners of a host is
// of the route's namespace or granted. It never fails for parents in the mesh.
func (r *routeReader) checkHostGrant(field string, host mesh.Hostname, owners []config.Key) verdict {
	isGranted := func(k config.Key) bool { return r.converter.isGranted(r.object.Key, k) }
	if r.inMesh || slices.ContainsFunc(owners, isGranted) {
		return verdict{}
	}
	return verdict{
		string(gatewayv1.RouteReasonRefNotPermitted),
		fmt.Sprintf("%s: %q is a host of %s %s in namespace %s, where no ReferenceGrant allows the reference to it",
			field, host, owners[0].Kind, owners[0].Name, owners[0].Namespace),
	}
}

// ownersOf returns the Service that has the host, or else the ServiceEntries that do, sorted. It
// adds them, and the Service also if it does not exist, to r.refs.
func (r *routeReader) ownersOf(host mesh.Hostname) []config.Key {
	c := r.converter
	if short, found := strings.CutSuffix(string(host), ".svc."+c.options.Domain); found {
		service, namespace, _ := strings.Cut(short, ".")
		k := serviceKey(name{Namespace: namespace, Name: service})
		r.refs = append(r.refs, k)
		if c.objects.all[k] != nil {
			return []config.Key{k}
		}
	}
	owners := slices.SortedFunc(c.objects.hosts.Values(host), config.Key.Compare)
	r.refs = append(r.refs, owners...)
	return owners
}

// meshHosts returns the hosts of a Service, ServiceImport or ServiceEntry, and whether the object
// exists. Only a ServiceEntry can have several hosts, or none.
func (c *Converter) meshHosts(k config.Key) ([]mesh.Hostname, bool) {
	object := c.objects.all[k]
	if object == nil {
		return nil, false
	}
	switch k.Kind {
	case api.ServiceEntry:
		return hostsOf(object), true
	case api.ServiceImport:
		return []mesh.Hostname{mesh.Hostname(k.Name + "." + k.Namespace + ".svc." + mesh.ClusterSetDomain)}, true
	default:
		return []mesh.Hostname{mesh.Hostname(k.Name + "." + k.Namespace + ".svc." + c.options.Domain)}, true
	}
}

// hasPort reports whether a Service, ServiceImport or ServiceEntry has a port with this number, of
// any protocol. A Service of type ExternalName without ports has all. It returns false if the
// object does not exist.
func (c *Converter) hasPort(k config.Key, number uint32) bool {
	object := c.objects.all[k]
	if object == nil {
		return false
	}
	switch o := object.Spec.(type) {
	case *corev1.Service:
		return o.Spec.Type == corev1.ServiceTypeExternalName && len(o.Spec.Ports) == 0 ||
			//nolint:gosec // a port
			slices.ContainsFunc(o.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == int32(number) })
	case *mcsv1beta1.ServiceImport:
		//nolint:gosec // a port
		return slices.ContainsFunc(o.Spec.Ports, func(p mcsv1beta1.ServicePort) bool { return p.Port == int32(number) })
	case *networking.ServiceEntry:
		return slices.ContainsFunc(o.Ports, func(p *networking.ServicePort) bool { return p.GetNumber() == number })
	default:
		return false
	}
}

// weightOf returns the weight of a backendRef: 1 by default, 0 for a negative one.
func weightOf(w *int32) uint32 {
	if w == nil {
		return 1
	}
	return uint32(max(*w, 0)) //nolint:gosec // not negative
}
