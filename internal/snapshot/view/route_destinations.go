package view

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// portSet contains the imported ports of a service; nil means all ports.
type portSet map[uint32]bool

// imports collects the services of a scope from its egress listeners.
type imports struct {
	byHost map[mesh.Hostname]*mesh.Service
	ports  map[mesh.Hostname]portSet
}

// add imports ports of a service, in addition to those imported before; nil is all ports. It does
// nothing if another service with the same hostname was imported before.
func (im *imports) add(svc *mesh.Service, ports portSet) {
	switch known := im.byHost[svc.Host]; {
	case known == nil:
		im.byHost[svc.Host], im.ports[svc.Host] = svc, maps.Clone(ports)
	case known != svc || im.ports[svc.Host] == nil:
	case ports == nil:
		im.ports[svc.Host] = nil
	default:
		maps.Copy(im.ports[svc.Host], ports)
	}
}

// importServices sets services, byHost and ports of a scope from the imports of its egress
// listeners. It adds the destinations of their VirtualServices for callers in namespace, unless the
// visible service lacks all of their ports. A route destination gets clusters, but no virtual host
// and no listener, and never replaces an imported service. visible has one service per hostname.
func (sc *scope) importServices(visible map[mesh.Hostname]*mesh.Service, namespace string) {
	im := imports{byHost: map[mesh.Hostname]*mesh.Service{}, ports: map[mesh.Hostname]portSet{}}
	for _, e := range sc.egress {
		var ports portSet
		if port, matches := ImportedPort(e.Listener); matches {
			ports = portSet{port: true}
		}
		for _, svc := range e.Services {
			im.add(svc, ports)
		}
	}
	for _, e := range sc.egress {
		for host, ports := range routeDestinations(e.VirtualServices, namespace) {
			svc := im.byHost[host]
			if svc == nil {
				svc = visible[host]
			}
			if svc != nil && hasAnyPort(svc, ports) {
				im.add(svc, ports)
			}
		}
	}
	sc.byHost, sc.ports = im.byHost, map[mesh.Hostname][]uint32{}
	for host, ports := range im.ports {
		sc.services = append(sc.services, im.byHost[host])
		if ports != nil {
			sc.ports[host] = slices.Sorted(maps.Keys(ports))
		}
	}
	slices.SortFunc(sc.services, compareServices)
}

// hasAnyPort reports whether the service has at least one of the ports. Nil ports match every
// service.
func hasAnyPort(svc *mesh.Service, ports portSet) bool {
	return ports == nil || slices.ContainsFunc(svc.Ports, func(p mesh.Port) bool { return ports[p.Number] })
}

// ImportedPort returns the port to which an egress listener is limited. matches is false for
// listeners that import all ports of a service: listeners without a port, on a Unix domain socket,
// or of protocol HTTP_PROXY, whose requests name the port themselves.
func ImportedPort(l *networking.IstioEgressListener) (port uint32, matches bool) {
	port = l.GetPort().GetNumber()
	return port, port != 0 && !strings.EqualFold(l.GetPort().GetProtocol(), "HTTP_PROXY")
}

// ImportsPort reports whether the View has clusters for a port of a service that it sees; it does
// not check whether the service has the port. A Sidecar's egress listener with a port imports that
// port alone. A route destination is imported with the ports that routes name.
func (v *View) ImportsPort(host mesh.Hostname, port uint32) bool {
	ports, partly := v.scope.ports[host]
	return !partly || slices.Contains(ports, port)
}

// GatewayRoutes reports whether a gateway routes to a port of a host: a VirtualService whose hosts
// one of its servers serves has it as a destination, for callers in the gateway's namespace. A
// destination without a port is for all ports. It returns false for other proxies.
func (v *View) GatewayRoutes(host mesh.Hostname, port uint32) bool {
	g := v.Gateway()
	if g == nil {
		return false
	}
	type key struct {
		names     snapshot.GatewayNames
		gateway   GatewayKey
		namespace string
	}
	scope := key{v.Key.Gateways, v.Key.Gateway, v.Key.Namespace}
	routed := snapshot.Derive(v.Snapshot.Visibility, scope, func() map[mesh.Hostname]portSet {
		var list []*snapshot.VirtualService
		for _, l := range g.Listeners {
			for _, server := range l.Servers {
				for _, vs := range v.VirtualServicesOf(server.Gateway) {
					if server.ServesHostOf(vs) {
						list = append(list, vs)
					}
				}
			}
		}
		return routeDestinations(list, v.Key.Namespace)
	})
	ports, there := routed[host]
	return there && (ports == nil || ports[port])
}

// routeDestinations returns the hosts that VirtualServices route to for callers in a namespace,
// with the ports that the destinations name; nil ports are all, because a destination names none.
func routeDestinations(list []*snapshot.VirtualService, namespace string) map[mesh.Hostname]portSet {
	found := map[mesh.Hostname]portSet{}
	for _, vs := range list {
		for _, d := range Destinations(vs.Spec, namespace) {
			host, port := vs.ResolveHost(d.GetHost()), d.GetPort().GetNumber()
			switch known, seen := found[host]; {
			case port == 0:
				found[host] = nil
			case !seen:
				found[host] = portSet{port: true}
			case known != nil:
				known[port] = true
			}
		}
	}
	return found
}

// Destinations returns the destinations of all routes, including mirrors, without nil and with
// duplicates. HTTP routes whose sourceNamespace excludes callers in namespace are left out; TCP and
// TLS routes are not.
func Destinations(spec *networking.VirtualService, namespace string) (list []*networking.Destination) {
	for _, r := range spec.GetHttp() {
		if !forNamespace(r, namespace) {
			continue
		}
		for _, d := range r.GetRoute() {
			list = append(list, d.GetDestination())
		}
		list = append(list, r.GetMirror())
		for _, m := range r.GetMirrors() {
			list = append(list, m.GetDestination())
		}
	}
	for _, r := range spec.GetTcp() {
		list = appendTargets(list, r.GetRoute())
	}
	for _, r := range spec.GetTls() {
		list = appendTargets(list, r.GetRoute())
	}
	return slices.DeleteFunc(list, func(d *networking.Destination) bool { return d == nil })
}

// appendTargets appends the destination of each of routes, which may be nil, to list.
func appendTargets(list []*networking.Destination, routes []*networking.RouteDestination) []*networking.Destination {
	for _, d := range routes {
		list = append(list, d.GetDestination())
	}
	return list
}

// forNamespace reports whether callers in a namespace can match a route: it has no match, or a
// match whose sourceNamespace is empty or equal to namespace.
func forNamespace(r *networking.HTTPRoute, namespace string) bool {
	return len(r.GetMatch()) == 0 || slices.ContainsFunc(r.GetMatch(), func(m *networking.HTTPMatchRequest) bool {
		return m.GetSourceNamespace() == "" || m.GetSourceNamespace() == namespace
	})
}
