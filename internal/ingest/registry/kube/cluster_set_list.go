package kube

import (
	"cmp"
	"slices"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ClusterSetService describes a service of the cluster set in one cluster (Multi-Cluster Services
// API).
type ClusterSetService struct {
	Cluster         mesh.ClusterID
	Namespace, Name string
	// Exported reports whether it has a ServiceExport, and Imported whether it has a ServiceImport.
	// VIP is the first address of the import, or "".
	Exported, Imported bool
	VIP                string
	// Discoverable reports per hostname of an exported service whether callers in other clusters
	// can use its endpoints. It is nil for a service that is only imported.
	Discoverable map[mesh.Hostname]bool
}

// ClusterSetServices returns the exported and imported services as of the last batch, sorted by
// namespace and name. It is safe for concurrent use. Callers must not modify the list.
func (c *Converter) ClusterSetServices() []ClusterSetService {
	if list := c.clusterSet.Load(); list != nil {
		return *list
	}
	return nil
}

// updateClusterSet computes the result of ClusterSetServices again, sorted by namespace and name. A
// Service with a ServiceExport and a ServiceImport has one entry. Discoverable of an export has the
// host of its Service, if that exists, with false if ClusterSet.Local is set. If the export is
// imported, it also has the host in the cluster set, with true. An import's VIP is its first IP,
// without validation.
func (c *Converter) updateClusterSet() {
	all := map[name]ClusterSetService{}
	for k := range c.exports {
		x := ClusterSetService{
			Cluster:      c.options.Cluster,
			Namespace:    k.Namespace,
			Name:         k.Name,
			Exported:     true,
			Discoverable: map[mesh.Hostname]bool{},
		}
		if c.services[k] != nil {
			x.Discoverable[mesh.Hostname(k.Name+"."+k.Namespace+".svc."+c.options.Domain)] = !c.options.ClusterSet.Local
		}
		if c.imports[k] != nil {
			x.Discoverable[clusterSetKey(k).Host] = true
		}
		all[k] = x
	}
	for k, object := range c.imports {
		x := all[k]
		x.Cluster, x.Namespace, x.Name, x.Imported = c.options.Cluster, k.Namespace, k.Name, true
		if ips := config.Spec[*mcsv1beta1.ServiceImport](object).Spec.IPs; len(ips) > 0 {
			x.VIP = ips[0]
		}
		all[k] = x
	}
	list := make([]ClusterSetService, 0, len(all))
	for _, x := range all {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b ClusterSetService) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	c.clusterSet.Store(&list)
}
