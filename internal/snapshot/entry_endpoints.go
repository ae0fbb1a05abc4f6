package snapshot

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// entryEndpoints gives the endpoints that ServiceEntries define for a service, whether or not they are what it was made of:
// so a ServiceEntry can add machines to a Kubernetes Service of its namespace, or to an older ServiceEntry. Each adds to
// those ports of the service that its own stand for. What the service's own selector chooses is not among them.
func (e *edit) entryEndpoints(svc *mesh.Service) []*mesh.Endpoint {
	var all []*mesh.Endpoint
	claims := e.claims.byKey[svc.ServiceKey]
	for i, part := range claims {
		if part.Provider != mesh.External {
			continue
		}
		list := e.listed(part)
		if svc.Provider != mesh.External || !sameSelector(part, svc) {
			list = append(list, e.workloads.endpoints(part)...)
		}
		if len(list) == 0 {
			continue
		}
		names := portNames(part, svc)
		if i > 0 && svc.Resolution == mesh.DNSRoundRobin {
			leaveOut(names, all) // Envoy uses one name only
		}
		all = append(all, renamed(list, names, svc)...)
	}
	return all
}

// listed gives the endpoints that a ServiceEntry lists itself.
func (e *edit) listed(part *mesh.Service) []*mesh.Endpoint {
	for _, s := range e.shards.Get(part.ServiceKey) {
		if s.Key.Cluster == part.Cluster && s.Key.Object == part.From {
			return slices.Clip(s.Endpoints)
		}
	}
	return nil
}

// portNames says what the ports of one definition are called in the service, as far as it has them. They are those of the
// same number; or else of the same name, which in Kubernetes goes before.
func portNames(part, svc *mesh.Service) map[string]string {
	names := make(map[string]string, len(part.Ports))
	for _, p := range part.Ports {
		number := slices.IndexFunc(svc.Ports, func(o mesh.Port) bool { return o.Number == p.Number })
		name := slices.IndexFunc(svc.Ports, func(o mesh.Port) bool { return o.Name == p.Name })
		i := number
		if i < 0 || svc.Provider == mesh.Kubernetes && name >= 0 {
			i = name
		}
		if i >= 0 {
			names[p.Name] = svc.Ports[i].Name
		}
	}
	return names
}

// leaveOut takes ports out that have endpoints already.
func leaveOut(names map[string]string, all []*mesh.Endpoint) {
	maps.DeleteFunc(names, func(_, name string) bool {
		return slices.ContainsFunc(all, func(e *mesh.Endpoint) bool { return e.ServicePort == name })
	})
}

// renamed gives those endpoints that the service can have, under the names of its own ports.
func renamed(list []*mesh.Endpoint, names map[string]string, svc *mesh.Service) []*mesh.Endpoint {
	out := make([]*mesh.Endpoint, 0, len(list))
	for _, e := range list {
		name, stands := names[e.ServicePort]
		if !stands || !takes(svc, e.Address) {
			continue
		}
		if name != e.ServicePort {
			copied := *e
			copied.ServicePort = name
			e = &copied
		}
		out = append(out, e)
	}
	return out
}

// takes says whether a service can have endpoints at such an address. Without one an endpoint is for the gateways of its
// network, which are told of by EDS.
func takes(svc *mesh.Service, address string) bool {
	_, err := netip.ParseAddr(address)
	ip, socket := err == nil, strings.HasPrefix(address, "unix://")
	switch svc.Resolution {
	case mesh.Static:
		return ip || address == "" || socket && svc.Provider == mesh.External // a Kubernetes Service has ports
	case mesh.DNS, mesh.DNSRoundRobin:
		return address != "" && !socket
	case mesh.Passthrough:
		return ip
	default:
		return false
	}
}
