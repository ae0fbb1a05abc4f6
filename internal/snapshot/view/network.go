package view

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// networkView gives the networks that a proxy wants to see (ISTIO_META_REQUESTED_NETWORK_VIEW), sorted and joined by commas; "": all.
func networkView(p *mesh.Proxy) string {
	list := slices.Clone(p.Metadata.RequestedNetworkView)
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	slices.Sort(list)
	return strings.Join(slices.DeleteFunc(slices.Compact(list), func(n string) bool { return n == "" }), ",")
}

// node gives the node on which a proxy runs, as far as that matters to anything that it may call.
func node(s *snapshot.Snapshot, p *mesh.Proxy) string {
	if !nodesMatter(s) {
		return ""
	}
	if w := workload(s, p); w != nil && w.Node != "" {
		return w.Node
	}
	return p.Metadata.NodeName
}

type nodesMatterKey struct{}

// nodesMatter says whether there are services whose callers' nodes make a difference.
func nodesMatter(s *snapshot.Snapshot) bool {
	return snapshot.Derive(s.Catalog, nodesMatterKey{}, func() bool {
		return slices.ContainsFunc(s.Services(), func(svc *mesh.Service) bool {
			return svc.NodeLocal || svc.TrafficDistribution == corev1.ServiceTrafficDistributionPreferSameNode
		})
	})
}
