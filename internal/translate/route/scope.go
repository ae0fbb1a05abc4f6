package route

import (
	"iter"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/view"
)

// scope is what one outbound listener may call, indexed for routes.
type scope struct {
	// services have a port on which requests are read, by that port's number, in the View's order.
	services map[uint32][]*mesh.Service
	// aliases are other names of a service (Kubernetes ExternalName), by the service's hostname.
	aliases map[mesh.Hostname][]*mesh.Service
	// rules are the VirtualServices with HTTP routes, in the order in which they are tried, and by host.
	rules []*snapshot.VirtualService
	exact map[mesh.Hostname][]*snapshot.VirtualService
	// wildcards are by what follows the "*"; lengths are how long those texts are, the longest first.
	wildcards map[string][]*snapshot.VirtualService
	lengths   []int
}

type scopeKey struct{ egress *view.Egress }

// scopeOf indexes an egress scope, once for all names and Views that share it.
func scopeOf(v *view.View, e *view.Egress) *scope {
	return snapshot.Derive(v.Snapshot.Visibility, scopeKey{e}, func() *scope {
		s := &scope{
			services:  map[uint32][]*mesh.Service{},
			aliases:   map[mesh.Hostname][]*mesh.Service{},
			exact:     map[mesh.Hostname][]*snapshot.VirtualService{},
			wildcards: map[string][]*snapshot.VirtualService{},
		}
		for _, svc := range e.Services {
			s.addService(v, svc)
		}
		for _, vs := range e.VirtualServices {
			if len(vs.Spec.Http) > 0 {
				s.addRules(vs)
			}
		}
		for suffix := range s.wildcards {
			s.lengths = append(s.lengths, len(suffix))
		}
		slices.Sort(s.lengths)
		s.lengths = slices.Compact(s.lengths)
		slices.Reverse(s.lengths)
		return s
	})
}

func (s *scope) addService(v *view.View, svc *mesh.Service) {
	if svc.Resolution == mesh.Alias {
		if host := destination.Host(v, svc.Host); host != svc.Host {
			s.aliases[host] = append(s.aliases[host], svc)
		}
		return
	}
	for _, p := range svc.Ports {
		list := s.services[p.Number]
		if readsRequests(p) && (len(list) == 0 || list[len(list)-1] != svc) { // a number may come twice, for TCP and UDP
			s.services[p.Number] = append(list, svc)
		}
	}
}

// readsRequests says that a port is HTTP or may turn out to be.
func readsRequests(p mesh.Port) bool { return p.Protocol.IsHTTP() || p.Protocol == mesh.Auto }

func (s *scope) addRules(vs *snapshot.VirtualService) {
	s.rules = append(s.rules, vs)
	for _, h := range vs.Hosts {
		if h.IsWildcard() {
			suffix := string(h[1:])
			s.wildcards[suffix] = append(s.wildcards[suffix], vs)
		} else {
			s.exact[h] = append(s.exact[h], vs)
		}
	}
}

// rulesFor gives the VirtualServices of a host in the order in which they are tried: those that name it, then those of
// wildcards, the most specific first; among equals in the View's order, which is by age.
func (s *scope) rulesFor(host mesh.Hostname) iter.Seq[*snapshot.VirtualService] {
	return func(yield func(*snapshot.VirtualService) bool) {
		for _, vs := range s.exact[host] {
			if !yield(vs) {
				return
			}
		}
		tail := strings.TrimPrefix(string(host), "*")
		for _, n := range s.lengths {
			if n > len(tail) {
				continue
			}
			for _, vs := range s.wildcards[tail[len(tail)-n:]] {
				if !yield(vs) {
					return
				}
			}
		}
	}
}

// service finds a service by hostname among those of a port.
func (s *scope) service(port uint32, host mesh.Hostname) *mesh.Service {
	list := s.services[port]
	i, found := slices.BinarySearchFunc(list, host, func(svc *mesh.Service, h mesh.Hostname) int {
		return strings.Compare(string(svc.Host), string(h))
	})
	if !found {
		return nil
	}
	return list[i]
}

// covers says whether a host of a VirtualService stands for a service of the port.
func (s *scope) covers(port uint32, host mesh.Hostname) bool {
	if !host.IsWildcard() {
		return s.service(port, host) != nil
	}
	return slices.ContainsFunc(s.services[port], func(svc *mesh.Service) bool { return host.Covers(svc.Host) })
}
