package listener

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// change is the services of an egress listener whose places have to be planned anew: as they were, and as they are.
type change struct{ before, after []serviceInput }

// Beyond so many changes at once it is as well to plan all.
const (
	mostServices = 64
	mostRules    = 16
)

// since gives what changed since an older input of the same class, for each egress listener, and finds the order of the
// services from the older one. ok is false where all has to be planned.
func (in *outboundInput) since(v *view.View, was *outboundInput) (changes []change, ok bool) {
	if in.around != was.around || in.sidecar != was.sidecar || in.unknown != was.unknown || len(in.egress) != len(was.egress) {
		return nil, false
	}
	// Where a route without a port leads is a matter of the service there.
	moved := movedTargets(was.targets, in.targets)
	for i := range in.egress {
		in.egress[i].differing(&was.egress[i], moved)
	}
	for i := range in.egress {
		e, old := &in.egress[i], &was.egress[i]
		rules := changedRules(v, old.rules, e.rules, moved)
		if len(rules) > mostRules {
			return nil, false
		}
		c, ok := e.since(old, moved, func(host mesh.Hostname) bool {
			return slices.ContainsFunc(rules, func(vs *snapshot.VirtualService) bool { return matches(vs, host) })
		})
		if !ok {
			return nil, false
		}
		changes = append(changes, c)
	}
	return changes, true
}

// movedTargets gives the hosts whose DestinationRule differs, of those that routes lead to.
func movedTargets(was, is []target) map[mesh.Hostname]bool {
	moved := map[mesh.Hostname]bool{}
	for _, t := range was {
		if !slices.Contains(is, t) {
			moved[t.host] = true
		}
	}
	for _, t := range is {
		if !slices.Contains(was, t) {
			moved[t.host] = true
		}
	}
	return moved
}

// changedRules gives the VirtualServices that came or went, and those that lead to a host whose policy differs.
func changedRules(v *view.View, was, is []*snapshot.VirtualService, moved map[mesh.Hostname]bool) []*snapshot.VirtualService {
	if len(moved) == 0 && slices.Equal(was, is) {
		return nil
	}
	there := make(map[*snapshot.VirtualService]bool, len(was))
	for _, vs := range was {
		there[vs] = true
	}
	var list []*snapshot.VirtualService
	for _, vs := range is {
		if !there[vs] || leadsTo(v, vs, moved) {
			list = append(list, vs)
		}
		delete(there, vs)
	}
	for _, vs := range was {
		if there[vs] {
			list = append(list, vs)
		}
	}
	return list
}

func leadsTo(v *view.View, vs *snapshot.VirtualService, hosts map[mesh.Hostname]bool) bool {
	leads := func(d *networking.RouteDestination) bool {
		return hosts[destination.Host(v, vs.Resolve(d.GetDestination().GetHost()))]
	}
	return len(hosts) > 0 &&
		(slices.ContainsFunc(vs.Spec.GetTcp(), func(r *networking.TCPRoute) bool { return slices.ContainsFunc(r.GetRoute(), leads) }) ||
			slices.ContainsFunc(vs.Spec.GetTls(), func(r *networking.TLSRoute) bool { return slices.ContainsFunc(r.GetRoute(), leads) }))
}

// differing collects the hosts whose service, or what shapes its listeners, differs.
func (e *egressInput) differing(old *egressInput, into map[mesh.Hostname]bool) {
	a, b := old.services, e.services
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].service.Host < b[0].service.Host:
			into[a[0].service.Host], a = true, a[1:]
		case len(a) == 0 || b[0].service.Host < a[0].service.Host:
			into[b[0].service.Host], b = true, b[1:]
		default:
			if a[0] != b[0] {
				into[a[0].service.Host] = true
			}
			a, b = a[1:], b[1:]
		}
	}
}

// since gives the services that differ, or that routed says are led elsewhere, and finds the order of all.
func (e *egressInput) since(old *egressInput, differs map[mesh.Hostname]bool, routed func(mesh.Hostname) bool) (c change, ok bool) {
	at := make([]int32, len(old.services)) // where an unchanged service is now; -1 for the others
	var after []int32
	for i, j := 0, 0; i < len(old.services) || j < len(e.services); {
		switch {
		case j == len(e.services) || i < len(old.services) && old.services[i].service.Host < e.services[j].service.Host:
			c.before, at[i] = append(c.before, old.services[i]), -1
			i++
		case i == len(old.services) || e.services[j].service.Host < old.services[i].service.Host:
			after = append(after, int32(j))
			j++
		default:
			host := e.services[j].service.Host
			if at[i] = int32(j); differs[host] || routed(host) {
				c.before, after, at[i] = append(c.before, old.services[i]), append(after, int32(j)), -1
			}
			i, j = i+1, j+1
		}
		if len(c.before)+len(after) > mostServices {
			return change{}, false
		}
	}
	for _, j := range after {
		c.after = append(c.after, e.services[j])
	}
	alias := func(s serviceInput) bool { return s.service.Resolution == mesh.Alias }
	if slices.ContainsFunc(c.before, alias) || slices.ContainsFunc(c.after, alias) {
		return change{}, false // names of others change with it
	}
	if isHTTPProxy(e.listener) && len(c.before)+len(c.after) > 0 {
		return change{}, false // the first of all services stands for it
	}
	e.follow(old, at, after)
	return c, true
}

// follow finds the order of the services from that of an older list. at is where its services are now, -1 for those that have
// to be put in their place again, which are after.
func (e *egressInput) follow(old *egressInput, at, after []int32) {
	slices.SortFunc(after, e.older)
	e.order = make([]int32, 0, len(e.services))
	for _, i := range old.order {
		now := at[i]
		if now < 0 {
			continue
		}
		for len(after) > 0 && e.older(after[0], now) < 0 {
			e.order, after = append(e.order, after[0]), after[1:]
		}
		e.order = append(e.order, now)
	}
	e.order = append(e.order, after...)
}
