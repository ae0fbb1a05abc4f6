package stream

import (
	"sync"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// Mode is the variant of the protocol that a stream speaks.
type Mode uint8

// The modes.
const (
	// SotW is "state of the world": StreamAggregatedResources.
	SotW Mode = iota
	// Delta is the incremental variant: DeltaAggregatedResources.
	Delta
)

// String names the mode for logs.
func (m Mode) String() string {
	if m == Delta {
		return "delta"
	}
	return "sotw"
}

// Payload is resources that are sent together, each name once. It is immutable, and one Payload serves every stream that
// is sent the same resources, so that their wire form is made once.
type Payload struct {
	resources []*resource.Resource
	forms     [2]form
	endpoints form // of clusters: the names of what they wait for
}

type form struct {
	once  sync.Once
	value any
}

// NewPayload makes a Payload of resources, sorted by name, in the order in which they are to be sent. The list must not
// be changed.
func NewPayload(list []*resource.Resource) *Payload { return &Payload{resources: list} }

// Resources gives the resources. The list must not be changed.
func (p *Payload) Resources() []*resource.Resource { return p.resources }

// Form gives the wire form of the resources in a mode. The first caller's encode makes it; it is kept for all others, so
// every caller must pass a function that does the same.
func (p *Payload) Form(m Mode, encode func([]*resource.Resource) any) any {
	f := &p.forms[m]
	f.once.Do(func() { f.value = encode(p.resources) })
	return f.value
}

// followers gives the names of the endpoints that the clusters of the Payload wait for, sorted.
func (p *Payload) followers(endpointsOf func(*resource.Resource) string) []string {
	f := &p.endpoints
	f.once.Do(func() {
		var names []string
		for _, r := range p.resources {
			if n := endpointsOf(r); n != "" {
				names = append(names, n)
			}
		}
		f.value = sorted(names)
	})
	names, _ := f.value.([]string)
	return names
}

// holding gives the resource of that name in some Payloads, nil if there is none.
func holding(parts []*Payload, name string) *resource.Resource {
	for _, p := range parts {
		if i := preceding(p.resources, name); i < len(p.resources) && p.resources[i].Name == name {
			return p.resources[i]
		}
	}
	return nil
}
