package listener

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// change is the services of an egress listener whose addresses must be replanned: their previous
// and their new inputs.
type change struct{ before, after []serviceInput }

// Above these numbers of changes, everything is replanned.
const (
	mostServices = 64
	mostRules    = 16
)

// since returns the changes from was, an older input of the same class, to in, for each egress
// listener. ok is false if everything must be replanned: settings, the Sidecar or the number of
// egress listeners changed, more than mostRules VirtualServices did, or egressInput.since returns
// false. It also derives the order of the services (egressInput.order) from the older one.
func (in *outboundInput) since(v *view.View, was *outboundInput) (changes []change, ok bool) {
	if in.listenerContext != was.listenerContext || in.sidecar != was.sidecar || in.unknown != was.unknown ||
		len(in.egress) != len(was.egress) {
		return nil, false
	}
	differs := map[mesh.Hostname]bool{}
	for i := range in.egress {
		in.egress[i].addDiffering(&was.egress[i], differs)
	}
	moved := movedTargets(was.targets, in.targets)
	maps.Copy(moved, differs)
	for i := range in.egress {
		e, old := &in.egress[i], &was.egress[i]
		rules := changedRules(v, old.rules, e.rules, moved)
		if len(rules) > mostRules {
			return nil, false
		}
		c, ok := e.since(old, differs, func(host mesh.Hostname) bool {
			return slices.ContainsFunc(rules, func(vs *snapshot.VirtualService) bool { return matchesHost(vs, host) })
		})
		if !ok {
			return nil, false
		}
		changes = append(changes, c)
	}
	return changes, true
}

// movedTargets returns the hosts that are in only one of two lists of targets, or whose service or
// DestinationRule differs between them. The result is empty, never nil, if there are none.
func movedTargets(was, is []target) map[mesh.Hostname]bool {
	moved := map[mesh.Hostname]bool{}
	if slices.Equal(was, is) {
		return moved
	}
	old := make(map[target]bool, len(was))
	for _, t := range was {
		old[t] = true
	}
	for _, t := range is {
		if !old[t] {
			moved[t.host] = true
		}
		delete(old, t)
	}
	for t := range old {
		moved[t.host] = true
	}
	return moved
}

// changedRules returns the VirtualServices that are in only one of the lists was and is, and the
// VirtualServices of is that reference a host in moved. It returns nil if there are none.
func changedRules(
	v *view.View,
	was, is []*snapshot.VirtualService,
	moved map[mesh.Hostname]bool,
) []*snapshot.VirtualService {
	if len(moved) == 0 && slices.Equal(was, is) {
		return nil
	}
	there := make(map[*snapshot.VirtualService]bool, len(was))
	for _, vs := range was {
		there[vs] = true
	}
	var list []*snapshot.VirtualService
	for _, vs := range is {
		if !there[vs] || references(v, vs, moved) {
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

// references reports whether a TCP or TLS route of a VirtualService has one of the hosts as
// destination, after aliases are followed.
func references(v *view.View, vs *snapshot.VirtualService, hosts map[mesh.Hostname]bool) bool {
	matches := func(d *networking.RouteDestination) bool {
		return hosts[destination.Host(v, vs.ResolveHost(d.GetDestination().GetHost()))]
	}
	return len(hosts) > 0 &&
		(slices.ContainsFunc(
			vs.Spec.GetTcp(),
			func(r *networking.TCPRoute) bool { return slices.ContainsFunc(r.GetRoute(), matches) },
		) ||
			slices.ContainsFunc(
				vs.Spec.GetTls(),
				func(r *networking.TLSRoute) bool { return slices.ContainsFunc(r.GetRoute(), matches) },
			))
}

// addDiffering adds to the set into the hosts whose service, or its other inputs, changed from old
// to e, appeared or disappeared. Both lists must be sorted by host.
func (e *egressInput) addDiffering(old *egressInput, into map[mesh.Hostname]bool) {
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

// since returns the services that changed since old, by differs, or for which routed returns true:
// as they were before and as they are after. It also derives the order of all services. ok is false
// if everything must be replanned: more than mostServices changed, one is an alias, or the listener
// is an HTTP proxy.
func (e *egressInput) since(
	old *egressInput,
	differs map[mesh.Hostname]bool,
	routed func(mesh.Hostname) bool,
) (c change, ok bool) {
	// by index in old.services: the index of an unchanged service in e.services, otherwise -1
	at := make([]int32, len(old.services))
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
		return change{}, false // Aliases change the names of other services.
	}
	if isHTTPProxy(e.listener) && len(c.before)+len(c.after) > 0 {
		return change{}, false // The listener uses the first of all services.
	}
	e.mergeOrder(old, at, after)
	return c, true
}

// mergeOrder derives e.order from the order of an older list. at has, for each of the older
// services, its index in e; -1 for changed ones. after has the indexes of changed services in e,
// and is sorted in place.
func (e *egressInput) mergeOrder(old *egressInput, at, after []int32) {
	slices.SortFunc(after, e.compareAge)
	e.order = make([]int32, 0, len(e.services))
	for _, i := range old.order {
		now := at[i]
		if now < 0 {
			continue
		}
		for len(after) > 0 && e.compareAge(after[0], now) < 0 {
			e.order, after = append(e.order, after[0]), after[1:]
		}
		e.order = append(e.order, now)
	}
	e.order = append(e.order, after...)
}
