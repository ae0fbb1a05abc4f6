package route

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Affected returns the elements of names whose RouteConfigurations a change from old to v may
// alter. Changes of endpoints and workloads alter none. Of DestinationRules, only ones with a hash
// policy matter. A VirtualService affects the RouteConfigurations of the ports of its hosts. If the
// effect is unknown, it returns all names; for gateways gatewayAffected decides.
func (g *Generator) Affected(old, v *view.View, d snapshot.Delta, names []string) []string {
	if v.Key.Type == mesh.RouterProxy {
		return gatewayAffected(old, v, d, names)
	}
	differs, ok := v.DiffSince(old, d)
	hashed := func(h mesh.Hostname) bool {
		return hasHashPolicy(old.DestinationRule(h)) || hasHashPolicy(v.DestinationRule(h))
	}
	if !ok || slices.ContainsFunc(differs.Rules, hashed) {
		return names
	}
	for h := range d.Rules { // Routes may reference hosts without a service.
		if hashed(h) {
			return names
		}
	}
	touched, ok := portsOf(differs.Services, old, v)
	if !ok {
		return names
	}
	changed := rulesSince(old, v)
	if len(touched) == 0 && changed == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		r, ok := parseName(name)
		return ok && !g.affects(v, r, touched, changed)
	})
}

// rulesSince returns, for each egress listener, the VirtualServices with HTTP routes that only one
// of the Views has, or nil if there are none. Both Views must have the same egress listeners.
func rulesSince(old, v *view.View) [][]*snapshot.VirtualService {
	changed := make([][]*snapshot.VirtualService, len(v.Egress))
	found := false
	for i, e := range v.Egress {
		if slices.Equal(old.Egress[i].VirtualServices, e.VirtualServices) {
			continue
		}
		gone, come := changedRules(withRoutes(old.Egress[i].VirtualServices), withRoutes(e.VirtualServices))
		changed[i] = append(gone, come...)
		found = found || len(changed[i]) > 0
	}
	if !found {
		return nil
	}
	return changed
}

// affects reports whether changes of services on ports, or of VirtualServices, may alter the
// RouteConfiguration that r requests. changed has the VirtualServices of each egress listener, or
// is nil. A request without a port (r.port is 0), or for all ports of its egress listener, is
// affected by any port. A VirtualService affects it if one of its hosts covers r.host or, without
// r.host, if it concerns the port. Without r.host and port, and for unknownHostPort, any affects
// it.
func (g *Generator) affects(v *view.View, r request, ports map[uint32]bool, changed [][]*snapshot.VirtualService) bool {
	e := egressFor(v, r)
	all := r.port == 0 || r.host == "" && forAllPorts(e)
	if ports[r.port] || all && len(ports) > 0 {
		return true
	}
	if changed == nil || e == nil {
		return false
	}
	list := changed[slices.Index(v.Egress, e)]
	switch {
	case len(list) == 0:
		return false
	case r.host != "":
		return slices.ContainsFunc(list, func(vs *snapshot.VirtualService) bool {
			return slices.ContainsFunc(vs.Hosts, func(h mesh.Hostname) bool { return h.Covers(r.host) })
		})
	case all || r.port == unknownHostPort:
		return true
	default:
		s := g.scope(v, e)
		return slices.ContainsFunc(list, func(vs *snapshot.VirtualService) bool { return s.concerns(vs, r.port) })
	}
}

// portsOf returns the ports of the services hosts on which requests may be HTTP, in any of the
// Views; without hosts it returns nil and true. ok is false if the ports do not determine which
// RouteConfigurations contain the services: a View has not exactly one egress listener, or a
// service is an alias, or has a hash policy or session.
func portsOf(hosts []mesh.Hostname, views ...*view.View) (ports map[uint32]bool, ok bool) {
	if len(hosts) == 0 {
		return nil, true
	}
	ports = map[uint32]bool{}
	for _, v := range views {
		if len(v.Egress) != 1 { // Each listener may see another service of a hostname.
			return nil, false
		}
		for _, h := range hosts {
			svc := v.Service(h)
			if svc == nil {
				continue
			}
			if svc.Resolution == mesh.Alias || hasHashPolicy(v.DestinationRule(h)) ||
				sessionOf(v, svc) != (mesh.Session{}) {
				return nil, false
			}
			for _, p := range svc.Ports {
				if mayBeHTTP(p) {
					ports[p.Number] = true
				}
			}
		}
	}
	return ports, true
}
