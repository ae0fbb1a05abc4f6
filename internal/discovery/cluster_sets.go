package discovery

import (
	"cmp"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// clusterSets indexes, by cluster, the converters that know which services are exported and
// imported (Multi-Cluster Services API).
type clusterSets struct {
	mu sync.Mutex
	of map[mesh.ClusterID]*kube.Converter
}

func newClusterSets() *clusterSets { return &clusterSets{of: map[mesh.ClusterID]*kube.Converter{}} }

// note registers and returns the converter of a cluster, replacing an earlier one. The method
// exchanged reads from it.
func (c *clusterSets) note(id mesh.ClusterID, k *kube.Converter) *kube.Converter {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[id] = k
	return k
}

// exchanged returns the exported and imported services of all known clusters, sorted by cluster,
// namespace and name.
func (s *server) exchanged() []debug.ClusterSetService {
	known := map[mesh.ClusterID]bool{mesh.ClusterID(s.options.ClusterID): true}
	for _, c := range s.remoteClusters() {
		known[mesh.ClusterID(c.ID)] = true
	}
	s.clusterSets.mu.Lock()
	defer s.clusterSets.mu.Unlock()
	var list []debug.ClusterSetService
	for id, k := range s.clusterSets.of {
		if !known[id] {
			continue
		}
		for _, x := range k.ClusterSetServices() {
			list = append(list, debug.ClusterSetService{
				Cluster: string(x.Cluster), Namespace: x.Namespace, Name: x.Name, Exported: x.Exported, Imported: x.Imported,
				ClusterSetVIP: x.VIP, Discoverability: debug.Discoverability(x.Discoverable),
			})
		}
	}
	slices.SortFunc(list, func(a, b debug.ClusterSetService) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return list
}
