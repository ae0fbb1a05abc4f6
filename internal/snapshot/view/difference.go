package view

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Difference is what of the outbound side differs between two Views of one Key, as far as services and DestinationRules go.
type Difference struct {
	// Services are the hostnames whose service came, went or differs, for any of the egress listeners, sorted.
	Services []mesh.Hostname
	// Rules are the hostnames of other services whose DestinationRule differs, sorted.
	Rules []mesh.Hostname
}

// Hosts are all hostnames of the difference, sorted.
func (d Difference) Hosts() []mesh.Hostname {
	if len(d.Rules) == 0 {
		return d.Services
	}
	return slices.Sorted(slices.Values(slices.Concat(d.Services, d.Rules)))
}

// Since gives what differs from an older View of the same Key, d being all that changed meanwhile. ok is false where it
// cannot be told: then anything may differ.
func (v *View) Since(old *View, d snapshot.Delta) (diff Difference, ok bool) {
	if old == nil || d.All || old.Settings != v.Settings || old.Sidecar != v.Sidecar || len(old.Egress) != len(v.Egress) {
		return Difference{}, false
	}
	changed := map[mesh.Hostname]bool{}
	if v.scope != old.scope {
		services(old.Services, v.Services, changed)
		for i, e := range v.Egress { // one listener may see another service of a hostname than the others
			services(old.Egress[i].Services, e.Services, changed)
		}
		importedPorts(old.scope.ports, v.scope.ports, changed)
	}
	for k := range d.Services { // also those whose rows are the same, but whose endpoints are part of what they are
		if svc := v.Service(k.Host); svc != nil && svc.ServiceKey == k {
			changed[k.Host] = true
		}
	}
	for h := range changed {
		diff.Services = append(diff.Services, h)
	}
	slices.Sort(diff.Services)
	for h := range d.Rules {
		v.eachCovered(h, func(host mesh.Hostname) {
			if !changed[host] && old.DestinationRule(host) != v.DestinationRule(host) {
				changed[host] = true
				diff.Rules = append(diff.Rules, host)
			}
		})
	}
	slices.Sort(diff.Rules)
	return diff, true
}

// services collects the hostnames for which two lists, sorted by hostname, do not have the same row.
func services(a, b []*mesh.Service, into map[mesh.Hostname]bool) {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(a) > 0 && len(b) > 0 && a[0] == b[0]:
			a, b = a[1:], b[1:]
		case len(b) == 0 || len(a) > 0 && a[0].Host < b[0].Host:
			into[a[0].Host], a = true, a[1:]
		case len(a) == 0 || b[0].Host < a[0].Host:
			into[b[0].Host], b = true, b[1:]
		default:
			into[a[0].Host] = true
			a, b = a[1:], b[1:]
		}
	}
}

// importedPorts adds the hostnames whose imported ports differ between two scopes.
func importedPorts(a, b map[mesh.Hostname][]uint32, into map[mesh.Hostname]bool) {
	for host, ports := range a {
		if other, partly := b[host]; !partly || !slices.Equal(ports, other) {
			into[host] = true
		}
	}
	for host := range b {
		if _, partly := a[host]; !partly {
			into[host] = true
		}
	}
}

// eachCovered calls f for the visible services that a host, maybe a wildcard, stands for.
func (v *View) eachCovered(h mesh.Hostname, f func(mesh.Hostname)) {
	if !h.IsWildcard() {
		if v.Service(h) != nil {
			f(h)
		}
		return
	}
	for _, svc := range v.Services {
		if h.Covers(svc.Host) {
			f(svc.Host)
		}
	}
}

// TouchesInbound says whether the change may have altered the proxy's own services, their own DestinationRules or the
// Sidecar's inbound listeners. It says false only where it surely has not.
func (v *View) TouchesInbound(d snapshot.Delta) bool {
	if d.All {
		return true
	}
	for k := range d.Configs {
		if v.Key.Peers.Has(k) {
			return true
		}
	}
	for _, in := range v.Inbound {
		if _, changed := d.Services[in.Service.ServiceKey]; changed {
			return true
		}
		for h := range d.Rules {
			if h.Covers(in.Service.Host) {
				return true
			}
		}
	}
	if v.Sidecar != nil {
		if _, changed := d.Configs[v.Sidecar.Key]; changed {
			return true
		}
	}
	return false
}
