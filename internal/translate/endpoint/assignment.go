package endpoint

import (
	"fmt"
	"slices"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Input is everything that the assignments of one service's clusters depend on.
type Input struct {
	// Cluster is zero if the assignments of all clusters of the service are made together.
	Cluster   mesh.ClusterName
	Service   *mesh.Service
	Endpoints *snapshot.EndpointSet
	// Rule is nil if no DestinationRule applies.
	Rule     *snapshot.DestinationRule
	Settings *snapshot.Settings
	Caller   Caller
}

// Caller is where the calling proxies run. Fields that do not affect the assignment are zero.
type Caller struct {
	Locality mesh.Locality
	Network  mesh.Network
	Cluster  mesh.ClusterID
	// FailoverLabels are the proxies' labels that failoverPriority settings name; see view.Key.
	FailoverLabels string
	// Node is the proxies' node, set only for services whose callers prefer or require their own
	// node.
	Node string
	// ClusterLocal is set if the service is reachable only within Cluster.
	ClusterLocal bool
	// NetworkView is the set of networks that the proxies requested; see view.Key.
	NetworkView string
	// Gateways are the gateways to other networks; if nil, all endpoints are reached directly. IPv4
	// and IPv6 are the address families of the proxies.
	Gateways   *snapshot.NetworkGateways
	IPv4, IPv6 bool
}

// Assignment returns the endpoints of the cluster in.Cluster by locality, with weights and
// priorities. It has no endpoints if the port or subset does not exist, or the service has none. It
// panics if its own encoding cannot be decoded.
func Assignment(in Input) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: in.Cluster.String()}
	port, ok := in.Service.ClusterPort(in.Cluster)
	if !ok || in.Endpoints == nil ||
		in.Cluster.Subset != "" && config.Subset(in.destinationRule(), in.Cluster.Subset) == nil {
		return out
	}
	b := in.appendAssignment(nil, newMember(in.Service, in.destinationRule(), in.Settings, in.Cluster, port))
	if err := proto.Unmarshal(b, out); err != nil {
		panic(fmt.Sprintf("assignment %q: %v", in.Cluster, err)) // It was encoded by this package.
	}
	return out
}

// appendAssignment appends the encoded ClusterLoadAssignment of the cluster m to b. It contains no
// endpoints if none is selected. Endpoints of other networks are replaced by their gateways if the
// caller has any. Localities get weights if distribute is set, otherwise priorities if failover is
// on.
func (in Input) appendAssignment(b []byte, m member) []byte {
	endpoints := in.selectEndpoints(m)
	b = slices.Grow(b, len(m.name)+len(endpoints)*typicalSize+typicalSize)
	b = appendText(b, assignmentClusterName, m.name)
	groups := groupByLocality(endpoints)
	if in.Caller.Gateways != nil {
		groups = in.replaceByGateways(groups, m)
	}
	switch l := m.locality; {
	case len(l.Setting.GetDistribute()) > 0:
		groups = applyDistribute(groups, in.Caller.Locality, l.Setting.GetDistribute())
	case l.Failover:
		groups = assignPriorities(groups, in.Caller, l)
	}
	for _, g := range groups {
		b = g.appendTo(b, in.resolvedByEnvoy())
	}
	return b
}

// typicalSize is the approximate size of an encoded endpoint in bytes.
const typicalSize = 160

// resolvedByEnvoy reports whether Envoy resolves the names of the endpoints: the service's
// resolution is DNS or DNSRoundRobin.
func (in Input) resolvedByEnvoy() bool {
	return in.Service.Resolution == mesh.DNS || in.Service.Resolution == mesh.DNSRoundRobin
}

// destinationRule returns the spec of the DestinationRule, or nil if none applies.
func (in Input) destinationRule() *networking.DestinationRule {
	if in.Rule == nil {
		return nil
	}
	return in.Rule.Spec
}
