package view

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Difference lists the hosts whose outbound configuration differs between two Views of one Key:
// changed services and changed DestinationRules.
type Difference struct {
	// Services are the hostnames whose service was added, removed or changed for any egress
	// listener, sorted.
	Services []mesh.Hostname
	// Rules are the hostnames of all other services whose DestinationRule changed, sorted.
	Rules []mesh.Hostname
}

// Hosts returns all hostnames of d, sorted. It may be d.Services itself.
func (d Difference) Hosts() []mesh.Hostname {
	if len(d.Rules) == 0 {
		return d.Services
	}
	return slices.Sorted(slices.Values(slices.Concat(d.Services, d.Rules)))
}

// DiffSince returns the difference between v and an older View of the same Key. d must contain all
// changes between their snapshots. ok is false if old is nil, d.All is set, or the settings, the
// Sidecar or the number of egress listeners changed; then the caller must regenerate everything. A
// visible service in d.Services is in diff.Services even if its row is the same. diff.Rules has the
// other hosts covered by d.Rules whose DestinationRule differs.
func (v *View) DiffSince(old *View, d snapshot.Delta) (diff Difference, ok bool) {
	if old == nil || d.All || old.Settings != v.Settings || old.Sidecar != v.Sidecar ||
		len(old.Egress) != len(v.Egress) {
		return Difference{}, false
	}
	changed := map[mesh.Hostname]bool{}
	if v.scope != old.scope {
		diffServices(old.Services, v.Services, changed)
		// one listener may import another service for a hostname than the other listeners do
		for i, e := range v.Egress {
			diffServices(old.Egress[i].Services, e.Services, changed)
		}
		diffImportedPorts(old.scope.ports, v.scope.ports, changed)
	}
	// also services with an unchanged row, because their endpoints are part of their clusters
	for k := range d.Services {
		if svc := v.Service(k.Host); svc != nil && svc.ServiceKey == k {
			changed[k.Host] = true
		}
	}
	for h := range changed {
		diff.Services = append(diff.Services, h)
	}
	slices.Sort(diff.Services)
	for h := range d.Rules {
		v.forEachCoveredHost(h, func(host mesh.Hostname) {
			if !changed[host] && old.DestinationRule(host) != v.DestinationRule(host) {
				changed[host] = true
				diff.Rules = append(diff.Rules, host)
			}
		})
	}
	slices.Sort(diff.Rules)
	return diff, true
}

// diffServices adds to the set into the hostnames whose service differs between a and b, which must
// be sorted by hostname. Services are compared by pointer. A hostname in only one of them differs.
func diffServices(a, b []*mesh.Service, into map[mesh.Hostname]bool) {
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

// diffImportedPorts adds to the set into the hostnames whose imported ports differ between a and b,
// the ports of two scopes. A hostname without an entry has all ports.
func diffImportedPorts(a, b map[mesh.Hostname][]uint32, into map[mesh.Hostname]bool) {
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

// forEachCoveredHost calls f with the hostname of each visible service that is h or, if h is a
// wildcard, that h matches.
func (v *View) forEachCoveredHost(h mesh.Hostname, f func(mesh.Hostname)) {
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

// IsInboundAffectedBy reports whether d may have changed the proxy's own services, their
// DestinationRules, its PeerAuthentications or the Sidecar's inbound listeners. It may return true
// for a change without effect, but never false for one with an effect.
func (v *View) IsInboundAffectedBy(d snapshot.Delta) bool {
	if d.All {
		return true
	}
	if v.IsAnyAttachedChanged(d, api.PeerAuthentication, api.Sidecar) {
		return true
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
	return false
}
