package endpoint

import (
	"fmt"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// Input is all that the assignments of one service's clusters depend on.
type Input struct {
	// Cluster is zero where they are made all together.
	Cluster   mesh.ClusterName
	Service   *mesh.Service
	Endpoints *snapshot.EndpointSet
	// Rule is nil if there is none.
	Rule     *snapshot.DestinationRule
	Settings *snapshot.Settings
	Caller   Caller
}

// Caller is where the calling proxies are. What of it makes no difference is zero.
type Caller struct {
	Locality mesh.Locality
	Network  mesh.Network
	Cluster  mesh.ClusterID
	// Near is their labels by which endpoints are near or far; see view.Key.
	Near string
	// Node is where they run, for services that it matters to.
	Node string
	// Local says that the service is reached within Cluster only.
	Local bool
	// NetworkView is the networks that they want to see; see view.Key.
	NetworkView string
	// Gateways are how they reach other networks; nil: all endpoints are reached directly. IPv4 and IPv6 are the families of
	// which they have addresses.
	Gateways   *snapshot.NetworkGateways
	IPv4, IPv6 bool
}

// Assignment gives the endpoints of one cluster by locality, with weights and priorities. A port or subset that there is not
// has none.
func Assignment(in Input) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: in.Cluster.String()}
	port, ok := in.Service.Port(in.Cluster.Port)
	if !ok || in.Endpoints == nil || in.Cluster.Subset != "" && policy.Subset(in.rule(), in.Cluster.Subset) == nil {
		return out
	}
	b := in.assignment(newMember(in.Service, in.rule(), in.Settings, in.Cluster, port))
	if err := proto.Unmarshal(b, out); err != nil {
		panic(fmt.Sprintf("assignment %q: %v", in.Cluster, err)) // what we have written ourselves
	}
	return out
}

// assignment gives the encoded ClusterLoadAssignment of a cluster.
func (in Input) assignment(m member) []byte {
	endpoints := in.selected(m)
	b := make([]byte, 0, len(m.name)+len(endpoints)*typicalSize+typicalSize)
	b = appendText(b, assignmentClusterName, m.name)
	groups := byLocality(endpoints)
	if in.Caller.Gateways != nil {
		groups = in.routed(groups, m)
	}
	switch l := m.locality; {
	case len(l.Setting.GetDistribute()) > 0:
		groups = distributed(groups, in.Caller.Locality, l.Setting.GetDistribute())
	case l.Failover:
		groups = prioritized(groups, in.Caller, l)
	}
	for _, g := range groups {
		b = g.append(b, in.resolved())
	}
	return b
}

// typicalSize is the bytes of one endpoint, about.
const typicalSize = 160

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
