package snapshot

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// NamesToResolve gives the names by which gateways of networks are known, sorted: what they stand for is to be said by events with a
// ResolvedName. The list must not be changed.
func (s *Snapshot) NamesToResolve() []string {
	if s.networks == nil {
		return nil
	}
	return s.networks.names
}

// resolve takes up what a name stands for, or that this is not known any more.
func (e *edit) resolve(op mesh.Op, r *mesh.ResolvedName) {
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
	e.outside = true
}

// gatewayList is a list of gateways under way.
type gatewayList struct {
	resolved map[string]*mesh.ResolvedName
	all      []mesh.NetworkGateway
	names    map[string]struct{}
	unknown  map[mesh.Network]struct{} // networks with a gateway of a name that is not resolved
}

func newGatewayList(resolved map[string]*mesh.ResolvedName) *gatewayList {
	return &gatewayList{resolved: resolved, names: map[string]struct{}{}, unknown: map[mesh.Network]struct{}{}}
}

// add adds a gateway by its address, or one for each address of its name.
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
		return // an address that is neither, which is a Problem of its object
	}
	l.names[g.Address] = struct{}{}
	r := l.resolved[g.Address]
	if r == nil {
		l.unknown[g.Network] = struct{}{}
		return
	}
	for _, a := range r.Addresses {
		g.Address = a
		l.all = append(l.all, g)
	}
}

// sorted gives the gateways, each once.
func (l *gatewayList) sorted() *NetworkGateways {
	slices.SortFunc(l.all, mesh.NetworkGateway.Compare)
	g := &NetworkGateways{all: slices.Compact(l.all), names: slices.Sorted(maps.Keys(l.names))}
	for _, known := range g.all {
		delete(l.unknown, known.Network)
	}
	g.unknown = slices.Sorted(maps.Keys(l.unknown))
	return g
}
