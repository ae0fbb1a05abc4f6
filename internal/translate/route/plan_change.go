package route

import (
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// plan is the virtual hosts of one RouteConfiguration, and all that it took to plan them. A RouteConfiguration keeps its
// plan for as long as it is in use, so that the next one of its name is made of it: at a change of VirtualServices only the
// virtual hosts that those are for are planned anew.
type plan struct {
	request  request
	scope    *scope
	settings *snapshot.Settings
	mark     any // snapshot.RulesMark

	hosts []*planned // sorted by name
	// encoded are the virtual hosts by their places in hosts; nil is one that is left without any domain.
	encoded []*virtualHost
	from    []config.Key // all of hosts', sorted
	// clusters are those that any request may be led to, sorted.
	clusters []string
}

// plan plans the answer to a request, of the older plan as much as is the same.
func (p *planner) plan(r request, old *plan) *plan {
	next := &plan{request: r, scope: p.scope, settings: p.v.Settings, mark: p.v.Snapshot.RulesMark()}
	if r.host != "" {
		p.form = anyHost
	} else if r.port == 0 {
		p.form = withPort
	}
	if old == nil || !next.follows(old) {
		next.hosts = p.all(r)
		next.encode(p.g)
		return next
	}
	gone, come := changedRules(old.scope.tried, p.scope.tried)
	var changes []change
	for at := range p.touched(r, append(gone, come...)) {
		changes = append(changes, change{name: operation(string(at.host), at.port), now: p.host(at.port, at.host)})
	}
	next.change(p.g, old, changes)
	return next
}

// follows says that a plan differs from an older one only by VirtualServices.
func (n *plan) follows(old *plan) bool {
	return n.request == old.request && n.scope.callees == old.scope.callees && n.settings == old.settings && n.mark == old.mark
}

// encode shares the domains out and makes the virtual hosts.
func (n *plan) encode(g *Generator) {
	inputs := make([]hostInput, len(n.hosts))
	for i, h := range n.hosts {
		inputs[i] = h.hostInput
	}
	kept := distinct(inputs)
	n.encoded = make([]*virtualHost, len(n.hosts))
	var from []config.Key
	for i, h := range n.hosts {
		from = append(from, h.from...)
		if len(kept) == 0 || kept[0].names != h.names {
			continue
		}
		if kept[0].lost != h.lost {
			n.hosts[i] = h.losing(kept[0].lost)
		}
		n.encoded[i] = g.hosts.Get(kept[0])
		kept = kept[1:]
	}
	slices.SortFunc(from, config.Key.Compare)
	n.from = slices.Compact(from)
	n.clusters = clustersOf(n.encoded)
}

// losing gives the same virtual host without the domains at other places.
func (h *planned) losing(lost string) *planned {
	other := *h
	other.lost = lost
	return &other
}

// change is one virtual host that is planned anew; nil is none.
type change struct {
	name string
	now  *planned
}

// change makes a plan of an older one. As long as no virtual host comes or goes, and none is called otherwise, each keeps
// the domains that it has.
func (n *plan) change(g *Generator, old *plan, changes []change) {
	slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.name, b.name) })
	n.hosts, n.encoded, n.from, n.clusters = old.hosts, old.encoded, old.from, old.clusters
	if n.renamed(changes) {
		n.hosts = replaced(old.hosts, changes)
		n.encode(g)
		return
	}
	n.hosts, n.encoded = slices.Clone(old.hosts), slices.Clone(old.encoded)
	var gone, come planned
	var left, led []string
	for _, c := range changes {
		at, found := find(n.hosts, c.name)
		if !found {
			continue
		}
		before := n.hosts[at]
		n.hosts[at] = c.now.losing(before.lost)
		gone.from, come.from = append(gone.from, before.from...), append(come.from, c.now.from...)
		if old.encoded[at] != nil {
			n.encoded[at] = g.hosts.Get(n.hosts[at].hostInput)
			left, led = append(left, old.encoded[at].clusters...), append(led, n.encoded[at].clusters...)
		}
	}
	n.from = revised(n.from, gone.from, come.from, config.Key.Compare, n.shapedBy)
	n.clusters = revised(n.clusters, left, led, strings.Compare, n.leadsTo)
}

// renamed says whether virtual hosts come or go, or have other domains to claim.
func (n *plan) renamed(changes []change) bool {
	return slices.ContainsFunc(changes, func(c change) bool {
		at, found := find(n.hosts, c.name)
		return found != (c.now != nil) || found && n.hosts[at].names != c.now.names
	})
}

func find(hosts []*planned, name string) (at int, found bool) {
	return slices.BinarySearchFunc(hosts, name, func(h *planned, name string) int { return strings.Compare(h.names.name, name) })
}

// replaced gives a sorted list after sorted changes.
func replaced(hosts []*planned, changes []change) []*planned {
	list := make([]*planned, 0, len(hosts)+len(changes))
	for _, c := range changes {
		at, found := find(hosts, c.name)
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

func (n *plan) shapedBy(k config.Key) bool {
	return slices.ContainsFunc(n.hosts, func(h *planned) bool { return slices.Contains(h.from, k) })
}

func (n *plan) leadsTo(cluster string) bool {
	return slices.ContainsFunc(n.encoded, func(h *virtualHost) bool { return h != nil && slices.Contains(h.clusters, cluster) })
}

// revised gives a sorted list of distinct values without those that are gone, if nothing keeps them, and with those that
// came. It is the list itself if nothing differs.
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

// takesAll says that requests to any host get somewhere.
func (n *plan) takesAll() bool {
	for i, h := range n.hosts {
		if n.encoded[i] != nil && h.takesAll() {
			return true
		}
	}
	return false
}
