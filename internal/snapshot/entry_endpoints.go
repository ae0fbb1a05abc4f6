package snapshot

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// entryEndpoints returns the endpoints of a service that ServiceEntries define, including
// ServiceEntries that are not the definition of the service. So a ServiceEntry can add machines to
// a Kubernetes Service of its namespace or to an older ServiceEntry, for the ports that both have.
// If the service resolves by DNS round robin, a later ServiceEntry adds endpoints only to ports
// that have none yet. Endpoints that the service's own selector matches are not included.
func (e *edit) entryEndpoints(svc *mesh.Service) []*mesh.Endpoint {
	var all []*mesh.Endpoint
	claims := e.definitions.byKey[svc.ServiceKey]
	for i, part := range claims {
		if !part.Provider.IsEntry() {
			continue
		}
		list := e.listedEndpoints(part)
		if !svc.Provider.IsEntry() || !sameSelector(part, svc) {
			list = append(list, e.workloads.selectedEndpoints(part)...)
		}
		if len(list) == 0 {
			continue
		}
		names := portNames(part, svc)
		if i > 0 && svc.Resolution == mesh.DNSRoundRobin {
			removeServedPorts(names, all) // Envoy uses only one DNS name per cluster
		}
		all = append(all, renamePorts(list, names, svc)...)
	}
	return all
}

// listedEndpoints returns the endpoints in a ServiceEntry's own endpoints field, or nil if it has
// none. part is the definition made from that ServiceEntry.
func (e *edit) listedEndpoints(part *mesh.Service) []*mesh.Endpoint {
	for _, s := range e.shards.Get(part.ServiceKey) {
		if s.Key.Cluster == part.Cluster && s.Key.Object == part.From {
			return slices.Clip(s.Endpoints)
		}
	}
	return nil
}

// portNames maps the port names of part, one definition of a service, to the names of svc for the
// same ports. Ports are the same if their numbers are equal, or else their names; for Kubernetes
// Services the name is compared first. Ports that svc does not have are left out.
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

// removeServedPorts deletes from names (portNames) the entries whose service port already has an
// endpoint in all.
func removeServedPorts(names map[string]string, all []*mesh.Endpoint) {
	maps.DeleteFunc(names, func(_, name string) bool {
		return slices.ContainsFunc(all, func(e *mesh.Endpoint) bool { return e.ServicePort == name })
	})
}

// renamePorts returns the endpoints of list whose address svc accepts, with the port names of svc;
// names maps the old to the new ones (portNames). Endpoints of ports that are not in names are left
// out. An endpoint that is renamed is copied.
func renamePorts(list []*mesh.Endpoint, names map[string]string, svc *mesh.Service) []*mesh.Endpoint {
	out := make([]*mesh.Endpoint, 0, len(list))
	for _, e := range list {
		name, stands := names[e.ServicePort]
		if !stands || !AcceptsAddress(svc, e.Address) {
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

// AcceptsAddress reports whether an endpoint of the service can have this address, given its
// resolution: an IP address, for DNS also a name, for Static services of ServiceEntries also a
// socket. It returns false for aliases and dynamic services. An empty address is accepted only for
// Static services. It means that the endpoint is reached through the gateways of its network, by
// EDS.
func AcceptsAddress(svc *mesh.Service, address string) bool {
	_, err := netip.ParseAddr(address)
	ip, socket := err == nil, config.IsSocket(address)
	switch svc.Resolution {
	case mesh.Static:
		// a Kubernetes Service needs a port, which a socket does not have
		return ip || address == "" || socket && svc.Provider.IsEntry()
	case mesh.DNS, mesh.DNSRoundRobin:
		return address != "" && !socket
	case mesh.Passthrough:
		return ip
	default:
		return false
	}
}
