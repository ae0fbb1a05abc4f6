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

// scope is what one outbound listener may call, indexed for routes.
type scope struct {
	*callees
	*rules
}

// callees are the services of a scope.
type callees struct {
	// made of: those that the listener calls, and all that the View sees.
	listed, visible []*mesh.Service
	// services have a port on which requests are read, by that port's number, in the View's order.
	services map[uint32][]*mesh.Service
	// aliases are other names of a service (Kubernetes ExternalName), by the service's hostname.
	aliases map[mesh.Hostname][]*mesh.Service
}

type scopeKey struct {
	of     *Generator
	egress *view.Egress
}

// scopeName is what stays of a scope while services and rules change.
type scopeName struct {
	namespace string
	allocated bool
	home      mesh.ClusterID
	sidecar   config.Key
	egress    int
}

// scope indexes an egress scope, once for all names and Views that share it. What differs from the one before costs.
func (g *Generator) scope(v *view.View, e *view.Egress) *scope {
	return snapshot.Derive(v.Snapshot.Visibility, scopeKey{g, e}, func() *scope {
		name := scopeName{v.Key.Namespace, v.Key.Allocated, v.Key.Home, v.Key.Sidecar, slices.Index(v.Egress, e)}
		old := g.scopes.Get(name)
		s := new(scope)
		if old != nil && slices.Equal(old.listed, e.Services) && slices.Equal(old.visible, v.Services) {
			s.callees = old.callees
		} else {
			s.callees = calleesOf(v, e)
		}
		if old != nil {
			s.rules = old.rules.replaced(e.VirtualServices)
		} else {
			s.rules = rulesOf(e.VirtualServices)
		}
		g.scopes.Set(name, s)
		return s
	})
}

func calleesOf(v *view.View, e *view.Egress) *callees {
	c := &callees{
		listed: e.Services, visible: v.Services,
		services: map[uint32][]*mesh.Service{}, aliases: map[mesh.Hostname][]*mesh.Service{},
	}
	for _, svc := range e.Services {
		c.add(v, svc)
	}
	return c
}

func (c *callees) add(v *view.View, svc *mesh.Service) {
	if svc.Resolution == mesh.Alias {
		if host := destination.Host(v, svc.Host); host != svc.Host {
			c.aliases[host] = append(c.aliases[host], svc)
		}
		return
	}
	for _, p := range svc.Ports {
		list := c.services[p.Number]
		if readsRequests(p) && (len(list) == 0 || list[len(list)-1] != svc) { // a number may come twice, for TCP and UDP
			c.services[p.Number] = append(list, svc)
		}
	}
}

// readsRequests says that a port is HTTP or may turn out to be.
func readsRequests(p mesh.Port) bool { return p.Protocol.IsHTTP() || p.Protocol == mesh.Auto }

// service finds a service by hostname among those of a port.
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

// covers says whether a host of a VirtualService stands for a service of the port.
func (c *callees) covers(port uint32, host mesh.Hostname) bool {
	if !host.IsWildcard() {
		return c.service(port, host) != nil
	}
	return slices.ContainsFunc(c.services[port], func(svc *mesh.Service) bool { return host.Covers(svc.Host) })
}

// concerns says whether a VirtualService has to do with any service of the port.
func (c *callees) concerns(vs *snapshot.VirtualService, port uint32) bool {
	return slices.ContainsFunc(vs.Hosts, func(h mesh.Hostname) bool { return c.covers(port, h) })
}

// eachOf calls f for a host of a VirtualService and for all services of the port that it stands for.
func (c *callees) eachOf(port uint32, host mesh.Hostname, f func(mesh.Hostname)) {
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

// ports gives all ports that virtual hosts may be on, sorted.
func (s *scope) ports() []uint32 {
	ports := slices.Sorted(maps.Keys(s.services))
	if i, found := slices.BinarySearch(ports, unknownHostPort); !found && len(s.tried) > 0 {
		ports = slices.Insert(ports, i, unknownHostPort)
	}
	return ports
}
