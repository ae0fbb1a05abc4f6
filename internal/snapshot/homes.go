package snapshot

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// homes are services as callers of single clusters know them: by the addresses that they have there. Callers of other clusters know
// them as Snapshot.Service gives them.
type homes struct {
	rows *cow.Map[home, *mesh.Service]
	// counts says of how many services a cluster has other addresses. It is never changed in place.
	counts map[mesh.ClusterID]int
}

type home struct {
	service mesh.ServiceKey
	cluster mesh.ClusterID
}

func newHomes() homes { return homes{rows: cow.New[home, *mesh.Service]()} }

// homesEdit is an edit of homes.
type homesEdit struct {
	rows   *cow.Edit[home, *mesh.Service]
	counts map[mesh.ClusterID]int
	own    bool // counts is nobody else's
}

func (h homes) edit() homesEdit { return homesEdit{rows: h.rows.Edit(), counts: h.counts} }

func (e *homesEdit) done() homes { return homes{e.rows.Done(), e.counts} }

// replace takes up that a service is another one now; nil is none.
func (e *homesEdit) replace(old, now *mesh.Service) {
	was, is := differingHomes(old), differingHomes(now)
	for _, c := range was {
		if !slices.Contains(is, c) {
			e.rows.Delete(home{old.ServiceKey, c})
			e.count(c, -1)
		}
	}
	for _, c := range is {
		row := *now
		row.Addresses, row.Hash = now.ClusterAddresses[c], 0
		e.rows.Set(home{now.ServiceKey, c}, row.Sealed())
		if !slices.Contains(was, c) {
			e.count(c, 1)
		}
	}
}

func (e *homesEdit) count(c mesh.ClusterID, by int) {
	if !e.own {
		if e.own, e.counts = true, maps.Clone(e.counts); e.counts == nil {
			e.counts = map[mesh.ClusterID]int{}
		}
	}
	if e.counts[c] += by; e.counts[c] == 0 {
		delete(e.counts, c)
	}
}

// differingHomes gives the clusters in which a service has other addresses than those that count first.
func differingHomes(s *mesh.Service) []mesh.ClusterID {
	if s == nil {
		return nil
	}
	var list []mesh.ClusterID
	for c, addresses := range s.ClusterAddresses {
		if !slices.Equal(addresses, s.Addresses) {
			list = append(list, c)
		}
	}
	return list
}

// Home gives the cluster by whose addresses a proxy there knows services, "" where they are the same as everywhere.
func (s *Snapshot) Home(cluster mesh.ClusterID) mesh.ClusterID {
	if s.homes.counts[cluster] == 0 {
		return ""
	}
	return cluster
}

// SameHomes says that Home gives the same in two snapshots, whatever the cluster.
func (s *Snapshot) SameHomes(o *Snapshot) bool {
	return maps.EqualFunc(s.homes.counts, o.homes.counts, func(int, int) bool { return true })
}

// KnownIn gives the service as callers of a cluster know it: the same row, where that is no other than elsewhere.
func (s *Snapshot) KnownIn(cluster mesh.ClusterID, svc *mesh.Service) *mesh.Service {
	if cluster == "" || len(svc.ClusterAddresses) == 0 {
		return svc
	}
	if row := s.homes.rows.Get(home{svc.ServiceKey, cluster}); row != nil {
		return row
	}
	return svc
}
