package kube

import (
	"cmp"
	"slices"

	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ClusterSetService is a service of the cluster set as one cluster has it (Multi-Cluster Services API).
type ClusterSetService struct {
	Cluster         mesh.ClusterID
	Namespace, Name string
	// Exported says that there is a ServiceExport, Imported that there is a ServiceImport, with the address VIP if it has one.
	Exported, Imported bool
	VIP                string
	// Discoverable says of each hostname of an exported service whether callers in other clusters know the endpoints.
	Discoverable map[mesh.Hostname]bool
}

// ClusterSetServices gives the services that are exported or imported, sorted. Anybody may ask; the list must not be changed.
func (c *Converter) ClusterSetServices() []ClusterSetService {
	if list := c.clusterSet.Load(); list != nil {
		return *list
	}
	return nil
}

// showClusterSet brings what ClusterSetServices gives up to date.
func (c *Converter) showClusterSet() {
	all := map[name]ClusterSetService{}
	for k := range c.exports {
		x := ClusterSetService{Cluster: c.options.Cluster, Namespace: k.Namespace, Name: k.Name, Exported: true, Discoverable: map[mesh.Hostname]bool{}}
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
