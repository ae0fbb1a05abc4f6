package route

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// Affected gives those of the names whose RouteConfigurations a change may alter. Endpoints and workloads alter none, of
// DestinationRules only those that hash do, and a VirtualService those on whose ports its hosts are.
func (g *Generator) Affected(old, v *view.View, d snapshot.Delta, names []string) []string {
	if v.Key.Type == mesh.RouterProxy {
		return gatewayAffected(old, v, d, names)
	}
	differs, ok := v.Since(old, d)
	hashed := func(h mesh.Hostname) bool { return hashes(old.DestinationRule(h)) || hashes(v.DestinationRule(h)) }
	if !ok || slices.ContainsFunc(differs.Rules, hashed) {
		return names
	}
	for h := range d.Rules { // routes may lead to hosts that are no services
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

// rulesSince gives the VirtualServices that differ by the egress listener that they are for, nil if none does.
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

// affects says whether changes of services on some ports, and of VirtualServices, concern a RouteConfiguration.
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

// portsOf gives the ports on which requests to the services are read, in any of the Views; ok is false if that
// does not tell which RouteConfigurations they are in.
func portsOf(hosts []mesh.Hostname, views ...*view.View) (ports map[uint32]bool, ok bool) {
	if len(hosts) == 0 {
		return nil, true
	}
	ports = map[uint32]bool{}
	for _, v := range views {
		if len(v.Egress) != 1 { // each may see another service of a hostname
			return nil, false
		}
		for _, h := range hosts {
			svc := v.Service(h)
			if svc == nil {
				continue
			}
			if svc.Resolution == mesh.Alias || hashes(v.DestinationRule(h)) || sessionOf(v, svc) != (mesh.Session{}) {
				return nil, false
			}
			for _, p := range svc.Ports {
				if readsRequests(p) {
					ports[p.Number] = true
				}
			}
		}
	}
	return ports, true
}
