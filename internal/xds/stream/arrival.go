package stream

import (
	"math"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// A route to a cluster that the client does not have yet, or not warm, loses requests. So what refers to new clusters
// waits until the client has shown that they are there.

// arrival is the clusters that were new to the client in one response, until it has shown that it has them. There are
// two signs of that. The ACK of their response (or of a later one) says that they are warm, for Envoy keeps it back until
// then; but also as long as any other cluster warms. Who has kept an ACK of CDS back for a deadline is stuck, until it
// answers: some cluster hangs. Then the ACK of the endpoints that followed them is taken as a sign instead, so that
// one that hangs costs one deadline, and not one for each change to come.
type arrival struct {
	number uint64   // of the response; pending if it is still to come
	names  []string // of the clusters
	all    bool     // it may be any cluster: the client cannot say which it has
	// fed is the number of the response with which all endpoints that follow them were sent, 0 before; taken says that
	// it was acknowledged, or that they wait for no endpoints. bare says that some of them wait for none.
	fed         uint64
	taken, bare bool
	age         int // in Overdue events
}

const (
	// deadline is for how many Overdue events anything waits for clusters. Endpoints and secrets come within
	// milliseconds, and names resolve within a second or two; what takes longer is broken (a silent DNS server, a secret
	// that does not exist), and a route configuration that is kept back for it keeps back all its other routes.
	deadline = patience
	// grace is for how many of them clusters without endpoints wait at a client that is stuck.
	grace = 2
	// pending is the number of a response still to come.
	pending = math.MaxUint64
)

// arrive notes the clusters in a draft that are new to the client. On a first connection none has to be waited for: Envoy
// does not go on to listeners before its first clusters are warm. Nor for a client that names its clusters: it asks for
// them because of its routes (gRPC), and knows what it lacks.
func (m *Machine) arrive(s *subscription, d *draft) {
	if s.role != clusterRole {
		return
	}
	m.arrivals = slices.DeleteFunc(m.arrivals, func(a arrival) bool { return a.number == pending })
	if len(d.parts) == 0 || !s.wildcard {
		return
	}
	a := arrival{number: m.nonces + 1}
	if s.base == nil && !s.resumed {
		if a.all = s.stateful || m.listeners() != nil; !a.all {
			return
		}
		a.bare, a.taken = true, m.types.endpoints < 0
	} else {
		if a.names = s.unseen(d); len(a.names) == 0 {
			return
		}
		a.taken = true
		m.world.each(s.at, a.names, func(_ string, r *resource.Resource) {
			if r == nil || m.world.endpointsOf(r) == "" {
				a.bare = true
			} else {
				a.taken = false
			}
		})
	}
	m.arrivals = append(m.arrivals, a)
}

// unseen gives the clusters in a draft that the client may not have in any version.
func (s *subscription) unseen(d *draft) []string {
	slices.Sort(d.fresh)
	slices.Sort(d.returned)
	names := without(slices.Compact(d.fresh), d.returned)
	for n := range s.refused {
		if holding(d.parts, n) != nil {
			names = union(names, []string{n})
		}
	}
	return names
}

// doubt notes that the client may not have any of the clusters: it came with state, and has not asked for clusters.
func (m *Machine) doubt() {
	m.arrivals = append(m.arrivals, arrival{number: pending, all: true, bare: true})
}

// fed notes that endpoints are sent. When nothing that follows is left, they were those of all clusters sent so far.
func (m *Machine) fed(s *subscription) {
	if len(s.following) > 0 {
		return
	}
	for i := range m.arrivals {
		if a := &m.arrivals[i]; a.fed == 0 && a.number != pending {
			a.fed = s.sent.number
		}
	}
}

// taken notes that a response was acknowledged.
func (m *Machine) taken(s *subscription, f flight) {
	switch s.role {
	case clusterRole:
		m.shown(f.number, nil, nil)
	case endpointRole:
		for i := range m.arrivals {
			if a := &m.arrivals[i]; a.fed != 0 && a.fed <= f.number {
				a.taken = true
			}
		}
	}
}

// shown notes that the client has answered for its clusters up to a response. Of those in the flights that it refused, it
// does not have the ones that it blames, or perhaps any if it blames none.
func (m *Machine) shown(number uint64, flights []flight, blamed []*resource.Resource) {
	m.stuck = false
	var kept []arrival
	for _, a := range m.arrivals {
		if a.number <= number {
			refused := slices.ContainsFunc(flights, func(f flight) bool { return f.number == a.number })
			if !refused || len(blamed) > 0 && !a.narrow(blamed) {
				continue
			}
		}
		kept = append(kept, a)
	}
	m.arrivals = kept
}

// retried notes the clusters that were refused and have been sent in another version since.
func (m *Machine) retried(s *subscription, refused []*resource.Resource) {
	for _, f := range s.flights {
		var names []string
		for _, r := range refused {
			if again := holding(f.parts, r.Name); again != nil && again.Version != r.Version {
				names = append(names, r.Name)
			}
		}
		if len(names) > 0 {
			m.arrivals = append(m.arrivals, arrival{number: f.number, names: names, bare: true})
		}
	}
}

// narrow leaves of an arrival only what is blamed, and says whether that is any.
func (a *arrival) narrow(blamed []*resource.Resource) bool {
	var names []string
	for _, r := range blamed {
		if a.holds(r.Name) {
			names = append(names, r.Name)
		}
	}
	a.names, a.all = names, false
	return len(names) > 0
}

func (a *arrival) holds(cluster string) bool { return a.all || has(a.names, cluster) }

// probable says that the clusters are there as far as can be seen of a client that is stuck.
func (a *arrival) probable() bool { return a.taken && (!a.bare || a.age >= grace) }

// doubtful says that the client may not have all clusters of the World.
func (m *Machine) doubtful() bool {
	return len(m.arrivals) > 0 && m.world.clustersOf != nil && len(m.world.shelves[m.types.clusters]) > 0
}

// waits says whether a resource refers to a cluster that the client has not shown to have.
func (m *Machine) waits(s *subscription, r *resource.Resource) bool {
	return r != nil && slices.ContainsFunc(m.world.refers(s.at, r), m.absent)
}

func (m *Machine) absent(cluster string) bool {
	return slices.ContainsFunc(m.arrivals, func(a arrival) bool {
		return a.holds(cluster) && (!m.stuck || !a.probable())
	})
}

// unready says that the first response of a type cannot be made yet: it would be the full state, and would take from the
// client what it leaves out.
func (m *Machine) unready(s *subscription, d *draft) bool {
	if m.mode == Delta || !s.Wildcard || s.base != nil || d.still == nil {
		return false
	}
	for _, shelf := range m.world.shelves[s.at] {
		for _, r := range shelf.set.List() {
			if s.covers(r.Name) && d.still(r.Name, r) {
				return true
			}
		}
	}
	return false
}

// freed makes due what does not have to wait for clusters any more.
func (m *Machine) freed(s *subscription, d *draft) {
	if !s.refers() || len(s.frozen) == 0 {
		return
	}
	var names []string
	for n, was := range s.frozen {
		is := m.world.get(s.at, n)
		if has(s.owed, n) || d.still != nil && is != nil && d.still(n, is) {
			continue
		}
		delete(s.frozen, n)
		if is != nil && is.Version != was.Version && s.covers(n) {
			names = append(names, n)
		}
	}
	s.owe(sorted(names))
}

// mature lets time pass for what is waited for. What was not waited for in vain is said.
func (m *Machine) mature() {
	if m.world == nil {
		return
	}
	if c := m.clusters(); c != nil && slices.ContainsFunc(c.flights, func(f flight) bool { return f.age >= deadline }) {
		m.stuck = true
	}
	var kept, over []arrival
	for _, a := range m.arrivals {
		if a.age++; a.age < deadline {
			kept = append(kept, a)
		} else {
			over = append(over, a)
		}
	}
	m.arrivals = kept
	for _, a := range over {
		m.late(a)
	}
}

// late says what has waited for clusters as long as it may, and waits for no others.
func (m *Machine) late(a arrival) {
	for _, s := range m.subs {
		if s == nil || !s.refers() {
			continue
		}
		var names, clusters []string
		for n := range s.frozen {
			is := m.world.get(s.at, n)
			if is == nil || m.world.clustersOf == nil || m.waits(s, is) {
				continue
			}
			before := len(clusters)
			for _, c := range m.world.refers(s.at, is) {
				if a.holds(c) {
					clusters = append(clusters, c)
				}
			}
			if len(clusters) > before {
				names = append(names, n)
			}
		}
		if len(names) > 0 {
			m.do(Late{TypeURL: s.URL, Names: sorted(names), Clusters: sorted(clusters)})
		}
	}
}
