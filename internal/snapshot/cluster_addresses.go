package snapshot

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// clusterAddresses indexes services with different virtual addresses in different clusters. Each
// cluster's callers use a copy of the service with that cluster's addresses; all other callers use
// the service as Snapshot.Service returns it.
type clusterAddresses struct {
	rows *cow.Map[clusterService, *mesh.Service]
	// counts is the number of services for which a cluster has its own addresses. It is copied
	// before a change.
	counts map[mesh.ClusterID]int
}

// clusterService identifies a service as the callers of one cluster use it.
type clusterService struct {
	service mesh.ServiceKey
	cluster mesh.ClusterID
}

// newClusterAddresses returns an empty index.
func newClusterAddresses() clusterAddresses {
	return clusterAddresses{rows: cow.New[clusterService, *mesh.Service]()}
}

// clusterAddressesEdit builds the next version of clusterAddresses.
type clusterAddressesEdit struct {
	rows   *cow.Edit[clusterService, *mesh.Service]
	counts map[mesh.ClusterID]int
	copied bool // counts is a copy that can be modified
}

// edit returns an edit that begins with h, which it does not change.
func (h clusterAddresses) edit() clusterAddressesEdit {
	return clusterAddressesEdit{rows: h.rows.Edit(), counts: h.counts}
}

// result returns the index with all changes. The edit must not be used afterwards.
func (e *clusterAddressesEdit) result() clusterAddresses {
	return clusterAddresses{e.rows.Done(), e.counts}
}

// replaceService updates the rows and counts of the clusters in which a service has other addresses
// than its primary ones. A row is a copy of now with the cluster's addresses as Addresses. old is
// nil for a new service, now for a removed one.
func (e *clusterAddressesEdit) replaceService(old, now *mesh.Service) {
	was, is := clustersWithOwnAddresses(old), clustersWithOwnAddresses(now)
	for _, c := range was {
		if !slices.Contains(is, c) {
			e.rows.Delete(clusterService{old.ServiceKey, c})
			e.addToCount(c, -1)
		}
	}
	for _, c := range is {
		row := *now
		row.Addresses, row.Hash = now.ClusterAddresses[c], 0
		e.rows.Set(clusterService{now.ServiceKey, c}, row.Sealed())
		if !slices.Contains(was, c) {
			e.addToCount(c, 1)
		}
	}
}

// addToCount adds by to the count of a cluster, after copying counts if necessary. A count of 0 is
// deleted.
func (e *clusterAddressesEdit) addToCount(c mesh.ClusterID, by int) {
	if !e.copied {
		if e.copied, e.counts = true, maps.Clone(e.counts); e.counts == nil {
			e.counts = map[mesh.ClusterID]int{}
		}
	}
	if e.counts[c] += by; e.counts[c] == 0 {
		delete(e.counts, c)
	}
}

// clustersWithOwnAddresses returns the clusters in which a service has other addresses than its
// primary ones, in no order. s may be nil.
func clustersWithOwnAddresses(s *mesh.Service) []mesh.ClusterID {
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

// VIPCluster returns cluster if some service has its own addresses there, and "" otherwise. Callers
// with equal results use the same addresses of services.
func (s *Snapshot) VIPCluster(cluster mesh.ClusterID) mesh.ClusterID {
	if s.clusterAddresses.counts[cluster] == 0 {
		return ""
	}
	return cluster
}

// HasSameVIPClusters reports whether VIPCluster returns the same in both snapshots for every
// cluster.
func (s *Snapshot) HasSameVIPClusters(o *Snapshot) bool {
	return maps.EqualFunc(s.clusterAddresses.counts, o.clusterAddresses.counts, func(int, int) bool { return true })
}

// ServiceForCluster returns svc with the addresses that callers of a cluster use. It returns svc
// itself if cluster is "", or if the service has no addresses there other than its primary ones.
func (s *Snapshot) ServiceForCluster(cluster mesh.ClusterID, svc *mesh.Service) *mesh.Service {
	if cluster == "" || len(svc.ClusterAddresses) == 0 {
		return svc
	}
	if row := s.clusterAddresses.rows.Get(clusterService{svc.ServiceKey, cluster}); row != nil {
		return row
	}
	return svc
}
