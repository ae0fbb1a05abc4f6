package endpoint

import (
	networking "istio.io/api/networking/v1alpha3"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// Input is all that an assignment depends on.
type Input struct {
	Cluster mesh.ClusterName
	// Service is nil for one that is not visible, which has no endpoints.
	Service   *mesh.Service
	Endpoints *snapshot.EndpointSet
	// Rule is nil if there is none.
	Rule     *snapshot.DestinationRule
	Settings *snapshot.Settings
	Caller   Caller
}

// Caller is where the calling proxies are. It is the zero value where that makes no difference.
type Caller struct {
	Locality mesh.Locality
	Network  mesh.Network
	Cluster  mesh.ClusterID
}

// Assignment gives the endpoints of the cluster by locality, with weights and priorities. A cluster that nobody knows has
// none.
func Assignment(in Input) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: in.Cluster.String()}
	if in.Service == nil || in.Endpoints == nil {
		return out
	}
	p := policy.Of(in.Settings.Mesh, in.rule(), in.Cluster.Subset, in.Cluster.Port)
	groups := byLocality(in.selected(p))
	switch l := policy.LocalityOf(in.Settings.Mesh, p, in.Service); {
	case len(l.Setting.GetDistribute()) > 0:
		groups = distributed(groups, in.Caller.Locality, l.Setting.GetDistribute())
	case l.Failover:
		groups = prioritized(groups, in.Caller, l.Setting)
	}
	for _, g := range groups {
		out.Endpoints = append(out.Endpoints, g.proto(in.resolved()))
	}
	return out
}

// resolved says that Envoy resolves the endpoints' names itself.
func (in Input) resolved() bool {
	return in.Service.Resolution == mesh.DNS || in.Service.Resolution == mesh.DNSRoundRobin
}

// rule gives the spec of the DestinationRule, nil if there is none.
func (in Input) rule() *networking.DestinationRule {
	if in.Rule == nil {
		return nil
	}
	return in.Rule.Spec
}
