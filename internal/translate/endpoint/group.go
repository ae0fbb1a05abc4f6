package endpoint

import (
	"cmp"
	"math"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// group is the endpoints of one locality and priority.
type group struct {
	locality  mesh.Locality
	endpoints []weighted
	// priority is 0 for the group that is used first. Envoy refuses gaps.
	priority uint32
	// weight is the locality's share of its priority.
	weight uint32
}

// weighted is an endpoint with its weight in the assignment.
type weighted struct {
	*mesh.Endpoint
	weight uint32
}

// groupByLocality returns a group for each locality, sorted by locality, or nil for an empty list.
// Endpoints keep their order. Weights are at least 1, and limited so that their sum fits 32 bits.
func groupByLocality(list []*mesh.Endpoint) []*group {
	if len(list) == 0 {
		return nil
	}
	// Envoy refuses an assignment whose weights add up to more than 32 bits.
	highest := uint32(math.MaxUint32 / len(list))
	var groups []*group
	at := map[mesh.Locality]*group{}
	for _, e := range list {
		g := at[e.Locality]
		if g == nil {
			g = &group{locality: e.Locality}
			at[e.Locality] = g
			groups = append(groups, g)
		}
		g.addEndpoint(weighted{e, min(max(e.Weight, 1), highest)})
	}
	slices.SortFunc(groups, func(a, b *group) int { return compareLocalities(a.locality, b.locality) })
	return groups
}

// addEndpoint appends e, and adds its weight to the group's.
func (g *group) addEndpoint(e weighted) {
	g.endpoints = append(g.endpoints, e)
	g.weight += e.weight
}

// compareLocalities orders localities by region, then zone, then subzone.
func compareLocalities(a, b mesh.Locality) int {
	return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.SubZone, b.SubZone))
}

// appendTo appends the group to b as the field endpoints of a ClusterLoadAssignment: tag, length
// and LocalityLbEndpoints. resolved is set if Envoy resolves the addresses by DNS.
func (g *group) appendTo(b []byte, resolved bool) []byte {
	b, at := openMessage(b, assignmentEndpoints)
	b = appendLocality(b, g.locality)
	for _, e := range g.endpoints {
		b = appendLbEndpoint(b, e, resolved)
	}
	b = appendWrapped(b, groupWeight, g.weight)
	b = appendNumber(b, groupPriority, g.priority)
	return closeMessage(b, at)
}
