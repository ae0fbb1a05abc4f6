package snapshot

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ExportableServices returns the Kubernetes Services of a cluster that may be exported to other
// clusters, sorted by hostname and namespace. Cluster-local Services and the type ExternalName are
// left out. So are Services whose definition comes from another cluster.
func (s *Snapshot) ExportableServices(cluster mesh.ClusterID) []types.NamespacedName {
	var list []types.NamespacedName
	for _, svc := range s.Services() {
		own := svc.From.Kind == api.Service && svc.Cluster == cluster
		if own && svc.Resolution != mesh.Alias && !s.Settings.IsClusterLocal(svc.Host) {
			list = append(list, types.NamespacedName{Namespace: svc.From.Namespace, Name: svc.From.Name})
		}
	}
	return list
}

// AllocatedAddresses returns the automatically allocated addresses of the hosts of the ServiceEntry
// k, in the order of its hosts, which are in lower case. It omits hosts whose service comes from
// another object, and returns nil if there is no such ServiceEntry or nothing is allocated.
func (s *Snapshot) AllocatedAddresses(k config.Key) []config.HostAddress {
	c := s.Config(k)
	if c == nil {
		return nil
	}
	var list []config.HostAddress
	for _, host := range config.Spec[*networking.ServiceEntry](c).GetHosts() {
		host = strings.ToLower(host)
		svc := s.Service(mesh.ServiceKey{Namespace: k.Namespace, Host: mesh.Hostname(host)})
		if svc == nil || svc.From != k {
			continue
		}
		for _, a := range svc.Allocated {
			list = append(list, config.HostAddress{Host: host, Address: a})
		}
	}
	return list
}
