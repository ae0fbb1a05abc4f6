package route

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// scope is what one outbound listener can call, indexed for routes.
type scope struct {
	*callees
	*rules
}

// callees indexes the services of a scope.
type callees struct {
	// listed are the services of the listener, visible all services of the View.
	listed, visible []*mesh.Service
	// services are the services with a port that may be HTTP, by the number of that port, in the
	// View's order.
	services map[uint32][]*mesh.Service
	// aliases are other names of a service (Kubernetes ExternalName), by the service's hostname.
	aliases map[mesh.Hostname][]*mesh.Service
}

type scopeKey struct {
	of     *Generator
	egress *view.Egress
}

// scopeName identifies a scope while its services and rules change. allocated is
// Key.KnowsAllocatedAddresses, home Key.VIPCluster, and egress the index of the egress listener.
type scopeName struct {
	namespace string
	allocated bool
	home      mesh.ClusterID
	sidecar   config.Key
	egress    int
}

// scope returns the index of an egress listener, cached with the snapshot. All Views that share the
// listener share the index, which is derived from the previous one where services or rules did not
// change.
func (g *Generator) scope(v *view.View, e *view.Egress) *scope {
	return snapshot.Derive(v.Snapshot.Visibility, scopeKey{g, e}, func() *scope {
		name := scopeName{v.Key.Namespace, v.Key.KnowsAllocatedAddresses, v.Key.VIPCluster, v.Key.Sidecar,
			slices.Index(v.Egress, e)}
		old := g.scopes.Get(name)
		s := new(scope)
		if old != nil && slices.Equal(old.listed, e.Services) && slices.Equal(old.visible, v.Services) {
			s.callees = old.callees
		} else {
			s.callees = newCallees(v, e)
		}
		if old != nil {
			s.rules = old.rules.withList(e.VirtualServices)
		} else {
			s.rules = newRules(e.VirtualServices)
		}
		g.scopes.Set(name, s)
		return s
	})
}

// newCallees returns the index of the services that the egress listener e can call.
func newCallees(v *view.View, e *view.Egress) *callees {
	c := &callees{
		listed: e.Services, visible: v.Services,
		services: map[uint32][]*mesh.Service{}, aliases: map[mesh.Hostname][]*mesh.Service{},
	}
	for _, svc := range e.Services {
		c.addService(v, svc)
	}
	return c
}

// addService adds a service to c.services under each of its port numbers that may be HTTP. An alias
// is instead added to c.aliases, by the host that it refers to, which need not be a service. A
// service with several such ports of one number is added once.
func (c *callees) addService(v *view.View, svc *mesh.Service) {
	if svc.Resolution == mesh.Alias {
		if host := destination.Host(v, svc.Host); host != svc.Host {
			c.aliases[host] = append(c.aliases[host], svc)
		}
		return
	}
	for _, p := range svc.Ports {
		list := c.services[p.Number]
		// A number may occur twice, for TCP and UDP.
		if mayBeHTTP(p) && (len(list) == 0 || list[len(list)-1] != svc) {
			c.services[p.Number] = append(list, svc)
		}
	}
}

// mayBeHTTP reports whether a port is HTTP or undeclared.
func mayBeHTTP(p mesh.Port) bool { return p.Protocol.IsHTTP() || p.Protocol == mesh.Auto }

// service returns the service with exactly this hostname whose port with that number may be HTTP,
// or nil.
func (c *callees) service(port uint32, host mesh.Hostname) *mesh.Service {
	list := c.services[port]
	i, found := slices.BinarySearchFunc(list, host, func(svc *mesh.Service, h mesh.Hostname) int {
		return strings.Compare(string(svc.Host), string(h))
	})
	if !found {
		return nil
	}
	return list[i]
}

// hasService reports whether a host of a VirtualService, which may be a wildcard, matches a service
// whose port with that number may be HTTP.
func (c *callees) hasService(port uint32, host mesh.Hostname) bool {
	if !host.IsWildcard() {
		return c.service(port, host) != nil
	}
	return slices.ContainsFunc(c.services[port], func(svc *mesh.Service) bool { return host.Covers(svc.Host) })
}

// hasRoutesByAddress reports whether routes of the Gateway API apply to a port of a service by its
// addresses. They may be for other proxies than the View's; listeners do not distinguish that.
func (s *scope) hasRoutesByAddress(host mesh.Hostname, port uint32) bool {
	for vs := range s.rulesFor(host) {
		if vs.AppliesByAddress(port) {
			return true
		}
	}
	return false
}

// concerns reports whether a host of a VirtualService matches a service whose port with that number
// may be HTTP.
func (c *callees) concerns(vs *snapshot.VirtualService, port uint32) bool {
	return slices.ContainsFunc(vs.Hosts, func(h mesh.Hostname) bool { return c.hasService(port, h) })
}

// forEachHost calls f for a host of a VirtualService and, if it is a wildcard, for all services of
// the port that it matches.
func (c *callees) forEachHost(port uint32, host mesh.Hostname, f func(mesh.Hostname)) {
	f(host)
	if !host.IsWildcard() {
		return
	}
	for _, svc := range c.services[port] {
		if host.Covers(svc.Host) {
			f(svc.Host)
		}
	}
}

// ports returns all ports with virtual hosts, sorted. If there are VirtualServices, these include
// unknownHostPort.
func (s *scope) ports() []uint32 {
	ports := slices.Sorted(maps.Keys(s.services))
	if i, found := slices.BinarySearch(ports, unknownHostPort); !found && len(s.tried) > 0 {
		ports = slices.Insert(ports, i, unknownHostPort)
	}
	return ports
}
