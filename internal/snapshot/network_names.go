package snapshot

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// NamesToResolve returns the DNS names of network gateways, sorted, or nil. A source must resolve
// them and send their addresses as events with a ResolvedName. Callers must not modify the list.
func (s *Snapshot) NamesToResolve() []string {
	if s.networks == nil {
		return nil
	}
	return s.networks.names
}

// applyResolvedName stores or deletes the addresses of a DNS name and marks the networks as dirty.
// It ignores an event that changes nothing. The map is copied, because earlier snapshots share it.
func (e *edit) applyResolvedName(op mesh.Op, r *mesh.ResolvedName) {
	old := e.next.resolved[r.Name]
	if op == mesh.Delete && old == nil || op == mesh.Upsert && old != nil && old.Equal(r) {
		return
	}
	now := maps.Clone(e.next.resolved)
	if now == nil {
		now = map[string]*mesh.ResolvedName{}
	}
	if op == mesh.Delete {
		delete(now, r.Name)
	} else {
		now[r.Name] = r
	}
	e.next.resolved = now
	e.networksDirty = true
}

// gatewayList collects network gateways.
type gatewayList struct {
	resolved   map[string]*mesh.ResolvedName
	all        []mesh.NetworkGateway
	names      map[string]struct{}
	unresolved map[mesh.Network]struct{} // networks with a gateway whose name is not resolved
}

// newGatewayList returns an empty list that resolves DNS names of gateways with resolved, which it
// does not change.
func newGatewayList(resolved map[string]*mesh.ResolvedName) *gatewayList {
	return &gatewayList{resolved: resolved, names: map[string]struct{}{}, unresolved: map[mesh.Network]struct{}{}}
}

// add adds a gateway to the list: one for an IP address, or one for each resolved address of a DNS
// name. It records the name, and the network of a name that is not resolved. It ignores gateways
// without port or address, and addresses that are neither IP nor hostname, which validation
// reports.
func (l *gatewayList) add(g mesh.NetworkGateway) {
	if g.Port == 0 || g.Address == "" {
		return
	}
	if ip, err := netip.ParseAddr(g.Address); err == nil {
		g.Address = ip.Unmap().String()
		l.all = append(l.all, g)
		return
	}
	if !config.IsHostname(g.Address) {
		return // neither an address nor a hostname: reported as a Problem of its object
	}
	l.names[g.Address] = struct{}{}
	r := l.resolved[g.Address]
	if r == nil {
		l.unresolved[g.Network] = struct{}{}
		return
	}
	for _, a := range r.Addresses {
		g.Address = a
		l.all = append(l.all, g)
	}
}

// build returns the collected gateways, sorted and without duplicates, their DNS names, and the
// networks whose gateways all have unresolved names. It does not set the indexes and the scale
// (withIndexes). It modifies l, which must not be used afterwards.
func (l *gatewayList) build() *NetworkGateways {
	slices.SortFunc(l.all, mesh.NetworkGateway.Compare)
	g := &NetworkGateways{all: slices.Compact(l.all), names: slices.Sorted(maps.Keys(l.names))}
	for _, known := range g.all {
		delete(l.unresolved, known.Network)
	}
	g.unresolved = slices.Sorted(maps.Keys(l.unresolved))
	return g
}
