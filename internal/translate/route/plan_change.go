package route

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// plan is the virtual hosts of one RouteConfiguration, with the inputs of the plan. A
// RouteConfiguration references its plan as long as it is in use, so the next one with its name is
// derived from it: a change of VirtualServices replans only the virtual hosts that these affect.
type plan struct {
	request  request
	scope    *scope
	settings *snapshot.Settings
	mark     any // snapshot.DestinationRulesVersion

	hosts []*planned // sorted by name
	// encoded are the virtual hosts by their index in hosts; nil for one without any domain.
	encoded []*virtualHost
	from    []config.Key // all objects of hosts, sorted
	// byAddress, if not nil, replaces some of the virtual hosts.
	byAddress *byAddress
	// removesDestination is set if listeners may set mesh.DestinationHeader.
	removesDestination bool
	// clusters are the clusters that requests may be routed to, sorted.
	clusters []string
}

// plan plans a RouteConfiguration, and sets p.form. If only VirtualServices changed since old, it
// plans again the virtual hosts that these affect, and reuses all others; old may be nil and is not
// modified. It plans all of them if the request, the services, the settings or the DestinationRules
// changed.
func (p *planner) plan(r request, old *plan) *plan {
	next := &plan{request: r, scope: p.scope, settings: p.v.Settings, mark: p.v.Snapshot.DestinationRulesVersion()}
	if r.host != "" {
		p.form = anyHost
	} else if r.port == 0 {
		p.form = withPort
	}
	if old == nil || !next.follows(old) {
		next.hosts = p.planAll(r)
		next.encode(p.g)
		next.applyByAddress(p, old.addressTable())
		return next
	}
	gone, come := changedRules(old.scope.tried, p.scope.tried)
	var changes []change
	for at := range p.affectedHosts(r, append(gone, come...)) {
		changes = append(changes, change{name: operation(string(at.host), at.port), now: p.planHost(at.port, at.host)})
	}
	next.applyChanges(p.g, old, changes)
	next.applyByAddress(p, old.addressTable())
	return next
}

// addressTable returns n.byAddress, or nil if n is nil.
func (n *plan) addressTable() *byAddress {
	if n == nil {
		return nil
	}
	return n.byAddress
}

// virtualHosts returns the encoded virtual hosts, without the virtual hosts that n.byAddress
// replaces and with its virtual host at the end. If n.byAddress is nil, it returns n.encoded
// itself. Elements are nil for virtual hosts without a domain.
func (n *plan) virtualHosts() []*virtualHost {
	if n.byAddress == nil {
		return n.encoded
	}
	list := make([]*virtualHost, 0, len(n.encoded)+1)
	for i, h := range n.encoded {
		if !n.byAddress.replaced[i] {
			list = append(list, h)
		}
	}
	return append(list, n.byAddress.host)
}

// follows reports whether n, without its virtual hosts, may be derived from old, because they
// differ only by VirtualServices.
func (n *plan) follows(old *plan) bool {
	return n.request == old.request && n.scope.callees == old.scope.callees && n.settings == old.settings &&
		n.mark == old.mark
}

// encode assigns the domains to the virtual hosts and encodes these. A virtual host without a
// domain is nil in n.encoded. It also sets n.from and n.clusters, sorted and without duplicates.
func (n *plan) encode(g *Generator) {
	inputs := make([]hostInput, len(n.hosts))
	for i, h := range n.hosts {
		inputs[i] = h.hostInput
	}
	kept := assignDomains(inputs)
	n.encoded = make([]*virtualHost, len(n.hosts))
	var from []config.Key
	for i, h := range n.hosts {
		from = append(from, h.from...)
		if len(kept) == 0 || kept[0].names != h.names {
			continue
		}
		if kept[0].lost != h.lost {
			n.hosts[i] = h.withoutDomains(kept[0].lost)
		}
		n.encoded[i] = g.hosts.Get(kept[0])
		kept = kept[1:]
	}
	slices.SortFunc(from, config.Key.Compare)
	n.from = slices.Compact(from)
	n.clusters = clustersOf(n.encoded)
}

// withoutDomains returns a copy of h without the domains at the indexes in lost.
func (h *planned) withoutDomains(lost string) *planned {
	other := *h
	other.lost = lost
	return &other
}

// change is one virtual host that has been replanned; now is nil if it was removed.
type change struct {
	name string
	now  *planned
}

// applyChanges derives the virtual hosts of n from an older plan, which is not modified. If no
// virtual host was added, removed or renamed, all keep the domains that they have; otherwise
// domains are assigned again. changes is sorted in place.
func (n *plan) applyChanges(g *Generator, old *plan, changes []change) {
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.name, b.name) })
	n.hosts, n.encoded, n.from, n.clusters = old.hosts, old.encoded, old.from, old.clusters
	if n.changesNames(changes) {
		n.hosts = applyChanges(old.hosts, changes)
		n.encode(g)
		return
	}
	n.hosts, n.encoded = slices.Clone(old.hosts), slices.Clone(old.encoded)
	var gone, come planned
	var left, led []string
	for _, c := range changes {
		at, found := findHost(n.hosts, c.name)
		if !found {
			continue
		}
		before := n.hosts[at]
		n.hosts[at] = c.now.withoutDomains(before.lost)
		gone.from, come.from = append(gone.from, before.from...), append(come.from, c.now.from...)
		if old.encoded[at] != nil {
			n.encoded[at] = g.hosts.Get(n.hosts[at].hostInput)
			left, led = append(left, old.encoded[at].clusters...), append(led, n.encoded[at].clusters...)
		}
	}
	n.from = revised(n.from, gone.from, come.from, config.Key.Compare, n.derivesFrom)
	n.clusters = revised(n.clusters, left, led, strings.Compare, n.references)
}

// changesNames reports whether any change adds, removes or renames a virtual host, so that domains
// must be assigned again.
func (n *plan) changesNames(changes []change) bool {
	return slices.ContainsFunc(changes, func(c change) bool {
		at, found := findHost(n.hosts, c.name)
		return found != (c.now != nil) || found && n.hosts[at].names != c.now.names
	})
}

// findHost returns the index in hosts, sorted by name, of the virtual host with this name. If it is
// not found, the index is where it would be inserted.
func findHost(hosts []*planned, name string) (at int, found bool) {
	return slices.BinarySearchFunc(
		hosts,
		name,
		func(h *planned, name string) int { return strings.Compare(h.names.name, name) },
	)
}

// applyChanges returns a new list of sorted hosts with sorted changes applied. A change without a
// host removes it.
func applyChanges(hosts []*planned, changes []change) []*planned {
	list := make([]*planned, 0, len(hosts)+len(changes))
	for _, c := range changes {
		at, found := findHost(hosts, c.name)
		list = append(list, hosts[:at]...)
		if c.now != nil {
			list = append(list, c.now)
		}
		if found {
			at++
		}
		hosts = hosts[at:]
	}
	return append(list, hosts...)
}

// derivesFrom reports whether a virtual host of n derives from the object k.
func (n *plan) derivesFrom(k config.Key) bool {
	return slices.ContainsFunc(n.hosts, func(h *planned) bool { return slices.Contains(h.from, k) })
}

// references reports whether a virtual host of n references a cluster.
func (n *plan) references(cluster string) bool {
	return slices.ContainsFunc(
		n.encoded,
		func(h *virtualHost) bool { return h != nil && slices.Contains(h.clusters, cluster) },
	)
}

// revised returns list, which must be sorted by compare, with the values of come added, without
// duplicates. Values of gone are removed unless come has them or kept returns true for them. It
// returns list itself if nothing changes, otherwise a copy. kept is not called if gone is empty.
func revised[T comparable](list, gone, come []T, compare func(a, b T) int, kept func(T) bool) []T {
	shared := true
	own := func() {
		if shared {
			list, shared = slices.Clone(list), false
		}
	}
	for _, v := range gone {
		if at, found := slices.BinarySearchFunc(list, v, compare); found && !slices.Contains(come, v) && !kept(v) {
			own()
			list = slices.Delete(list, at, at+1)
		}
	}
	for _, v := range come {
		if at, found := slices.BinarySearchFunc(list, v, compare); !found {
			own()
			list = slices.Insert(list, at, v)
		}
	}
	return list
}

// takesAll reports whether requests to any host are routed, because the virtual host of the host
// "*" has the domain "*" (hostInput.takesAll). Hosts that are not encoded do not matter.
func (n *plan) takesAll() bool {
	for i, h := range n.hosts {
		if n.encoded[i] != nil && h.takesAll() {
			return true
		}
	}
	return false
}
