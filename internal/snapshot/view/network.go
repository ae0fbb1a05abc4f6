package view

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// networkView returns the networks that a proxy requests (ISTIO_META_REQUESTED_NETWORK_VIEW),
// sorted and joined by commas; "" means all.
func networkView(p *mesh.Proxy) string {
	list := slices.Clone(p.Metadata.RequestedNetworkView)
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	slices.Sort(list)
	return strings.Join(slices.DeleteFunc(slices.Compact(list), func(n string) bool { return n == "" }), ",")
}

// callerNode returns the node of a proxy: of its workload, or else the node that the proxy reports.
// It returns "" if no service has endpoints that depend on the caller's node.
func callerNode(s *snapshot.Snapshot, p *mesh.Proxy) string {
	if !hasNodeAwareServices(s) {
		return ""
	}
	if w := findWorkload(s, p); w != nil && w.Node != "" {
		return w.Node
	}
	return p.Metadata.NodeName
}

// Locality returns the locality of a proxy: of its workload (for a pod, that of its Node), or
// else the locality that the proxy reports. Only the registry knows the labels of Nodes.
func Locality(s *snapshot.Snapshot, p *mesh.Proxy) mesh.Locality {
	if w := findWorkload(s, p); w != nil && w.Locality != (mesh.Locality{}) {
		return w.Locality
	}
	return p.Locality
}

type nodeAwareKey struct{}

// hasNodeAwareServices reports whether the mesh has services whose endpoints depend on the caller's
// node. The result is cached per set of services.
func hasNodeAwareServices(s *snapshot.Snapshot) bool {
	return snapshot.Derive(s.Catalog, nodeAwareKey{}, func() bool {
		return slices.ContainsFunc(s.Services(), func(svc *mesh.Service) bool {
			return svc.NodeLocal || svc.TrafficDistribution == corev1.ServiceTrafficDistributionPreferSameNode
		})
	})
}
