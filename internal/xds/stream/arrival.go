package stream

import (
	"math"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// A route to a cluster that the client does not have, or that is not warm, loses requests.
// Resources that refer to new clusters therefore wait until the client has shown that it has these
// clusters.

// arrival is the set of clusters in one response that were new to the client. It is deleted when
// the client has shown that it has them, or at the deadline.
//
// The sign is the ACK of that response or of a later one. Envoy sends it only when the clusters are
// warm, but also holds it back as long as any other cluster warms. A client that has held back an
// ACK of CDS for a deadline is stuck until it answers CDS: some cluster hangs. While it is stuck,
// the ACK of the endpoints that followed the clusters is accepted as the sign instead. A hanging
// cluster thus costs one deadline, and not one for each later change.
type arrival struct {
	number uint64   // of the response, or pending if it was not sent yet
	names  []string // of the clusters
	all    bool     // any cluster may be new: the client cannot report which it has
	// fed is the number of the response with which all endpoints that follow the clusters were
	// sent, or 0 before. taken is set when that response is acknowledged, or if no cluster waits
	// for endpoints. bare is set if some of the clusters wait for no endpoints.
	fed         uint64
	taken, bare bool
	age         int // in Tick events
}

const (
	// deadline is the number of Tick events for which resources wait for clusters. Endpoints and
	// secrets arrive within milliseconds, and names resolve within a second or two. If it takes
	// longer, something is broken (a silent DNS server, a secret that does not exist). A held-back
	// route configuration holds back all its other routes.
	deadline = patience
	// grace is the number of Tick events for which clusters without endpoints are waited for at
	// a stuck client.
	grace = 2
	// pending is the number of a response that was not sent yet.
	pending = math.MaxUint64
)

// recordArrival adds an arrival with the clusters in a draft of CDS that the client may not have
// yet, and deletes the arrival of markUnwarmed. If a client has state, or has requested listeners,
// and did not report its clusters, any cluster may be new.
//
// It adds none for other types, or if no cluster is new. It adds none on a first connection,
// because Envoy requests listeners only when its first clusters are warm. It adds none for a client
// that names its clusters (gRPC): that requests them because of its routes and knows which it
// lacks.
func (m *Machine) recordArrival(s *subscription, d *draft) {
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
		if a.names = s.newClusters(d); len(a.names) == 0 {
			return
		}
		a.taken = true
		m.resources.forEachNamed(s.at, a.names, func(_ string, r *resource.Resource) {
			if r == nil || m.resources.endpointsOf(r) == "" {
				a.bare = true
			} else {
				a.taken = false
			}
		})
	}
	m.arrivals = append(m.arrivals, a)
}

// newClusters returns, sorted, the names of clusters in a draft that the client may not have in any
// version. These are new clusters (d.fresh) that did not linger, and previously rejected ones that
// the draft contains. It sorts the draft's lists in place.
func (s *subscription) newClusters(d *draft) []string {
	slices.Sort(d.fresh)
	slices.Sort(d.returned)
	names := SubtractNames(slices.Compact(d.fresh), d.returned)
	for n := range s.refused {
		if findResource(d.parts, n) != nil {
			names = MergeNames(names, []string{n})
		}
	}
	return names
}

// markUnwarmed adds an arrival of all clusters for a client that reconnected with state and has not
// requested clusters: it may lack any. recordArrival deletes it.
func (m *Machine) markUnwarmed() {
	m.arrivals = append(m.arrivals, arrival{number: pending, all: true, bare: true})
}

// markEndpointsSent records in the arrivals that the EDS response which was just recorded completes
// their endpoints. It does nothing while s.following has names, because endpoints of sent clusters
// are still missing.
func (m *Machine) markEndpointsSent(s *subscription) {
	if len(s.following) > 0 {
		return
	}
	for i := range m.arrivals {
		if a := &m.arrivals[i]; a.fed == 0 && a.number != pending {
			a.fed = s.sent.number
		}
	}
}

// updateArrivals updates the arrivals after the ACK of response f of type s. An ACK of CDS deletes
// all arrivals up to f and resets m.stuck. An ACK of EDS sets taken in the arrivals whose endpoints
// were sent with f or earlier. Other types have no effect.
func (m *Machine) updateArrivals(s *subscription, f flight) {
	switch s.role {
	case clusterRole:
		m.deleteArrivals(f.number, nil, nil)
	case endpointRole:
		for i := range m.arrivals {
			if a := &m.arrivals[i]; a.fed != 0 && a.fed <= f.number {
				a.taken = true
			}
		}
	}
}

// deleteArrivals deletes the arrivals up to the response number, which the client has answered, and
// resets m.stuck. flights are rejected responses. Of an arrival with one of these, it keeps the
// clusters that blamed contains, or all if blamed is empty.
func (m *Machine) deleteArrivals(number uint64, flights []flight, blamed []*resource.Resource) {
	m.stuck = false
	var kept []arrival
	for _, a := range m.arrivals {
		if a.number <= number {
			refused := slices.ContainsFunc(flights, func(f flight) bool { return f.number == a.number })
			if !refused || len(blamed) > 0 && !a.restrictTo(blamed) {
				continue
			}
		}
		kept = append(kept, a)
	}
	m.arrivals = kept
}

// recordUnanswered adds an arrival for each unanswered response that contains any of these clusters
// in another version than the given one. The arrival has the names of these clusters. A cluster
// without a version may be contained in any.
func (m *Machine) recordUnanswered(s *subscription, clusters []*resource.Resource) {
	for _, f := range s.flights {
		var names []string
		for _, r := range clusters {
			if again := findResource(f.parts, r.Name); again != nil && again.Version != r.Version {
				names = append(names, r.Name)
			}
		}
		if len(names) > 0 {
			m.arrivals = append(m.arrivals, arrival{number: f.number, names: names, bare: true})
		}
	}
}

// restrictTo removes all clusters but the blamed ones from an arrival, which then no longer
// contains all clusters (all), and reports whether any are left.
func (a *arrival) restrictTo(blamed []*resource.Resource) bool {
	var names []string
	for _, r := range blamed {
		if a.hasCluster(r.Name) {
			names = append(names, r.Name)
		}
	}
	a.names, a.all = names, false
	return len(names) > 0
}

// hasCluster reports whether the arrival contains the cluster, by name or because it contains all.
func (a *arrival) hasCluster(cluster string) bool { return a.all || containsName(a.names, cluster) }

// isProbablyWarm reports whether a stuck client probably has the clusters: it has acknowledged
// their endpoints and, if some wait for no endpoints, grace has passed.
func (a *arrival) isProbablyWarm() bool { return a.taken && (!a.bare || a.age >= grace) }

// mayLackClusters reports whether any arrival is recorded, so that the client may lack clusters of
// the ResourceSnapshot. It returns false if the ResourceSnapshot has no clustersOf or serves no
// clusters.
func (m *Machine) mayLackClusters() bool {
	return len(m.arrivals) > 0 && m.resources.clustersOf != nil && len(m.resources.lists[m.types.clusters].groups) > 0
}

// mustWait reports whether resource r of type s refers to a cluster that the client has not shown
// to have (lacksCluster). It returns false if r is nil.
func (m *Machine) mustWait(s *subscription, r *resource.Resource) bool {
	return r != nil && slices.ContainsFunc(m.resources.referencedClusters(s.at, r), m.lacksCluster)
}

// lacksCluster reports whether an arrival contains the cluster, so that the client may lack it. If
// the client is stuck, arrivals that are probably warm are ignored.
func (m *Machine) lacksCluster(cluster string) bool {
	return slices.ContainsFunc(m.arrivals, func(a arrival) bool {
		return a.hasCluster(cluster) && (!m.stuck || !a.isProbablyWarm())
	})
}

// mustDelay reports whether the first response of a wildcard type must be delayed because one of
// its resources must wait. In SotW the response is the full state, so the client would delete the
// resources that it omits. In delta it returns false.
func (m *Machine) mustDelay(s *subscription, d *draft) bool {
	if m.mode == Delta || !s.Wildcard || s.base != nil || d.still == nil {
		return false
	}
	for _, group := range m.resources.lists[s.at].groups {
		for r := range group.set.All() {
			if s.coversName(r.Name) && d.still(r.Name, r) {
				return true
			}
		}
	}
	return false
}

// unfreezeReady unfreezes the resources of s that no longer have to wait for clusters, except names
// in s.owed, which addOwed handles. Resources whose version has changed since are added to s.owed.
// It does nothing for types that refer to no clusters. A resource that no longer exists is unfrozen
// without being sent.
func (m *Machine) unfreezeReady(s *subscription, d *draft) {
	if !s.refersToClusters() || len(s.frozen) == 0 {
		return
	}
	var names []string
	for n, was := range s.frozen {
		is := m.resources.findResource(s.at, n)
		if containsName(s.owed, n) || is != nil && d.mustWait(is) {
			continue
		}
		delete(s.frozen, n)
		if is != nil && is.Version != was.Version && s.coversName(n) {
			names = append(names, n)
		}
	}
	s.oweNames(sortedNames(names))
}

// ageArrivals adds one Tick event to the age of each arrival and deletes the arrivals that reach
// the deadline. Resources no longer wait for the clusters of a deleted arrival, and it emits a Late
// for them (reportLate). It sets m.stuck if a CDS response has been unanswered for the deadline. It
// does nothing before the first ResourceSnapshot.
func (m *Machine) ageArrivals() {
	if m.resources == nil {
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
		m.reportLate(a)
	}
}

// reportLate emits a Late for each type with frozen resources that waited only for clusters of the
// deleted arrival a. It emits nothing for resources that still wait for others. It deletes nothing,
// and skips types that refer to no clusters.
func (m *Machine) reportLate(a arrival) {
	for _, s := range m.subs {
		if s == nil || !s.refersToClusters() {
			continue
		}
		var names, clusters []string
		for n := range s.frozen {
			is := m.resources.findResource(s.at, n)
			if is == nil || m.resources.clustersOf == nil || m.mustWait(s, is) {
				continue
			}
			before := len(clusters)
			for _, c := range m.resources.referencedClusters(s.at, is) {
				if a.hasCluster(c) {
					clusters = append(clusters, c)
				}
			}
			if len(clusters) > before {
				names = append(names, n)
			}
		}
		if len(names) > 0 {
			m.addAction(Late{TypeURL: s.URL, Names: sortedNames(names), Clusters: sortedNames(clusters)})
		}
	}
}
