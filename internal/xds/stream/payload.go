package stream

import (
	"sync"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Mode is the variant of the xDS protocol that a stream uses.
type Mode uint8

// The modes.
const (
	// SotW is "state of the world": StreamAggregatedResources.
	SotW Mode = iota
	// Delta is the incremental variant: DeltaAggregatedResources.
	Delta
)

// String returns the name of the mode for logs.
func (m Mode) String() string {
	if m == Delta {
		return "delta"
	}
	return "sotw"
}

// Payload is a list of resources that are sent together, each name once. It is immutable. All
// streams that are sent the same resources share one Payload, so the resources are encoded once for
// each mode.
type Payload struct {
	resources []*resource.Resource
	forms     [2]form
	endpoints form // of clusters: the names of the endpoints that they wait for
}

type form struct {
	once  sync.Once
	value any
}

// NewPayload returns a Payload of resources, which must be sorted by name. They are sent in this
// order. The list must not be changed afterwards.
func NewPayload(list []*resource.Resource) *Payload { return &Payload{resources: list} }

// Resources returns the resources. The list must not be changed.
func (p *Payload) Resources() []*resource.Resource { return p.resources }

// Form returns the result of encode for the resources and a mode. The first call runs encode; all
// others get the cached result, so every caller must pass an equivalent function.
func (p *Payload) Form(m Mode, encode func([]*resource.Resource) any) any {
	f := &p.forms[m]
	f.once.Do(func() { f.value = encode(p.resources) })
	return f.value
}

// endpointNames returns the names of the ClusterLoadAssignments that the clusters of the Payload
// wait for, sorted and without duplicates. The result of the first call is cached, so later calls
// ignore endpointsOf. It must not be changed.
func (p *Payload) endpointNames(endpointsOf func(*resource.Resource) string) []string {
	f := &p.endpoints
	f.once.Do(func() {
		var names []string
		for _, r := range p.resources {
			if n := endpointsOf(r); n != "" {
				names = append(names, n)
			}
		}
		f.value = sortedNames(names)
	})
	names, _ := f.value.([]string)
	return names
}

// findResource returns the resource of that name in the first Payload that has it, or nil if none
// has it.
func findResource(parts []*Payload, name string) *resource.Resource {
	for _, p := range parts {
		if i := countPreceding(p.resources, name); i < len(p.resources) && p.resources[i].Name == name {
			return p.resources[i]
		}
	}
	return nil
}
