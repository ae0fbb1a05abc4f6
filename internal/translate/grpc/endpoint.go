package grpc

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// reduceAssignment makes an assignment one that gRPC takes: it ignores localities without a weight, and refuses those without a name,
// two of one name and priority, an address that is there twice, and priorities with a gap.
func reduceAssignment(of *resource.Resource) *reduced {
	a := new(endpointv3.ClusterLoadAssignment)
	decode(of, a)
	r := reduction{seen: map[string]bool{}, places: map[place]*endpointv3.LocalityLbEndpoints{}}
	for _, group := range a.GetEndpoints() {
		r.add(group)
	}
	out := &endpointv3.ClusterLoadAssignment{ClusterName: a.GetClusterName(), Endpoints: r.finished()}
	return keep(of, encode(of.Name, of.TypeURL, out))
}

type place struct {
	region, zone, subZone string
	priority              uint32
}

type reduction struct {
	groups []*endpointv3.LocalityLbEndpoints
	places map[place]*endpointv3.LocalityLbEndpoints
	seen   map[string]bool // addresses
}

func (r *reduction) add(group *endpointv3.LocalityLbEndpoints) {
	l := group.GetLocality()
	at := place{l.GetRegion(), l.GetZone(), l.GetSubZone(), group.GetPriority()}
	g := r.places[at]
	if g == nil {
		g = &endpointv3.LocalityLbEndpoints{
			Locality: &corev3.Locality{Region: at.region, Zone: at.zone, SubZone: at.subZone}, Priority: at.priority, LoadBalancingWeight: wrapperspb.UInt32(0),
		}
		r.places[at] = g
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
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: e.GetEndpoint().GetAddress()}},
			HealthStatus:   e.GetHealthStatus(), LoadBalancingWeight: e.GetLoadBalancingWeight(),
		})
	}
	if w := group.GetLoadBalancingWeight(); w != nil { // somebody says how much goes there
		weight = w.GetValue()
	}
	g.LoadBalancingWeight.Value += weight
}

// finished gives the groups that have endpoints, their priorities without gaps.
func (r *reduction) finished() []*endpointv3.LocalityLbEndpoints {
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
