package grpc

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// reduceAssignment pairs an assignment with a copy that gRPC accepts. gRPC ignores localities
// without a weight. It refuses localities without a name, two with one name and priority, duplicate
// addresses, and priorities with gaps. So these are merged, left out or renumbered (addGroup,
// finish).
func reduceAssignment(of *resource.Resource) *reduced {
	a := new(endpointv3.ClusterLoadAssignment)
	decodeResource(of, a)
	r := reduction{seen: map[string]bool{}, groupsBy: map[localityPriority]*endpointv3.LocalityLbEndpoints{}}
	for _, group := range a.GetEndpoints() {
		r.addGroup(group)
	}
	out := &endpointv3.ClusterLoadAssignment{ClusterName: a.GetClusterName(), Endpoints: r.finish()}
	return keepTogether(of, encodeResource(of.Name, of.TypeURL, out))
}

type localityPriority struct {
	region, zone, subZone string
	priority              uint32
}

type reduction struct {
	groups   []*endpointv3.LocalityLbEndpoints
	groupsBy map[localityPriority]*endpointv3.LocalityLbEndpoints
	seen     map[string]bool // addresses
}

// addGroup merges a group into the group of its locality and priority in r.groups, and adds that if
// it is missing. Endpoints that are not sockets, and addresses that were added before, are left
// out. The weight of the group is added: its explicit one, or the sum of its endpoints'.
func (r *reduction) addGroup(group *endpointv3.LocalityLbEndpoints) {
	l := group.GetLocality()
	at := localityPriority{l.GetRegion(), l.GetZone(), l.GetSubZone(), group.GetPriority()}
	g := r.groupsBy[at]
	if g == nil {
		g = &endpointv3.LocalityLbEndpoints{
			Locality: &corev3.Locality{
				Region:  at.region,
				Zone:    at.zone,
				SubZone: at.subZone,
			}, Priority: at.priority, LoadBalancingWeight: wrapperspb.UInt32(0),
		}
		r.groupsBy[at] = g
		r.groups = append(r.groups, g)
	}
	weight := uint32(0)
	for _, e := range group.GetLbEndpoints() {
		s := e.GetEndpoint().GetAddress().GetSocketAddress()
		if s == nil || r.seen[s.String()] {
			continue
		}
		r.seen[s.String()] = true
		weight += max(e.GetLoadBalancingWeight().GetValue(), 1)
		g.LbEndpoints = append(g.LbEndpoints, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: e.GetEndpoint().GetAddress()},
			},
			HealthStatus: e.GetHealthStatus(), LoadBalancingWeight: e.GetLoadBalancingWeight(),
		})
	}
	if w := group.GetLoadBalancingWeight(); w != nil { // an explicit weight
		weight = w.GetValue()
	}
	g.LoadBalancingWeight.Value += weight
}

// finish returns the added groups that have endpoints and a weight, and renumbers their priorities
// from 0 without gaps. It changes r.groups in place.
func (r *reduction) finish() []*endpointv3.LocalityLbEndpoints {
	r.groups = slices.DeleteFunc(r.groups, func(g *endpointv3.LocalityLbEndpoints) bool {
		return len(g.GetLbEndpoints()) == 0 || g.GetLoadBalancingWeight().GetValue() == 0
	})
	var priorities []uint32
	for _, g := range r.groups {
		priorities = append(priorities, g.GetPriority())
	}
	slices.Sort(priorities)
	priorities = slices.Compact(priorities)
	for _, g := range r.groups {
		at, _ := slices.BinarySearch(priorities, g.GetPriority())
		g.Priority = uint32(at)
	}
	return r.groups
}
