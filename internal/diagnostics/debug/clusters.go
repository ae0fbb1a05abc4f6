package debug

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/remote"
)

// RemoteClusters returns the states of remote clusters in the form of clusterz, in their order.
// SecretName is NAMESPACE/NAME. The result is nil for an empty list.
func RemoteClusters(states []remote.Status) []Cluster {
	var list []Cluster
	for _, c := range states {
		list = append(list, Cluster{
			ID: string(c.Cluster), SecretName: c.Secret.Namespace + "/" + c.Secret.Name, SyncStatus: c.State,
			Waiting: c.Waiting, Services: c.Services, Workloads: c.Workloads, Slices: c.Shards,
		})
	}
	return list
}

// ClusterSetServices returns services of the cluster set in the form of mcsz, in their order. The
// result is nil for an empty list.
func ClusterSetServices(services []kube.ClusterSetService) []ClusterSetService {
	var list []ClusterSetService
	for _, x := range services {
		list = append(list, ClusterSetService{
			Cluster: string(x.Cluster), Namespace: x.Namespace, Name: x.Name, Exported: x.Exported,
			Imported:      x.Imported,
			ClusterSetVIP: x.VIP, Discoverability: Discoverability(x.Discoverable),
		})
	}
	return list
}
