package kube

import (
	"cmp"
	"slices"
	"sync"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ClusterSets indexes, by cluster, the Converters that know which services are exported and
// imported (Multi-Cluster Services API). It is safe for concurrent use. The zero value is empty.
type ClusterSets struct {
	mu         sync.Mutex
	converters map[mesh.ClusterID]*Converter
}

// Add registers the Converter k of a cluster, replacing an earlier one, and returns k.
func (c *ClusterSets) Add(id mesh.ClusterID, k *Converter) *Converter {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.converters == nil {
		c.converters = map[mesh.ClusterID]*Converter{}
	}
	c.converters[id] = k
	return k
}

// Services returns the exported and imported services of the given clusters, sorted by cluster,
// namespace and name. It may be called by any goroutine.
func (c *ClusterSets) Services(clusters []mesh.ClusterID) []ClusterSetService {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []ClusterSetService
	for id, k := range c.converters {
		if slices.Contains(clusters, id) {
			list = append(list, k.ClusterSetServices()...)
		}
	}
	slices.SortFunc(list, func(a, b ClusterSetService) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name))
	})
	return list
}
