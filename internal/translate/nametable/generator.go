package nametable

import (
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Name is the name of the one resource. istiod gives it none; a name lets a client say which version it has.
const Name = "nametable"

// Generator makes the name tables of Views. It is for use by many goroutines.
type Generator struct {
	lines  *memo.Table[input, *lines]
	tables tables
}

// NewGenerator makes a Generator that remembers nothing yet.
func NewGenerator() *Generator {
	return &Generator{lines: memo.New(linesOf)}
}

// Scope gives the part of a Key that a table depends on: what the proxies see, which addresses of it they can use, and for
// headless services where they are.
func Scope(k view.Key) view.Key {
	return view.Key{
		Type: k.Type, Namespace: k.Namespace, Sidecar: k.Sidecar, Network: k.Network, Cluster: k.Cluster, IPv4: k.IPv4, IPv6: k.IPv6,
		Allocated: k.Allocated, Home: k.Home,
	}
}

// All gives the name table of the View's proxies, always one. Clients ask for the type without a name, and istiod answers
// them whether or not they say that they capture DNS (the node metadata DNS_CAPTURE): whoever does not, does not ask.
func (g *Generator) All(v *view.View) []*resource.Resource {
	scope := Scope(v.Key)
	rest := g.tables.last(scope)
	list := make([]*lines, 0, len(v.Services))
	for _, svc := range v.Services {
		in, ok := inputFor(v, svc)
		if !ok {
			continue
		}
		for len(rest) > 0 && rest[0].in.service.Host < svc.Host {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].in == in { // most are as they were, and this is quicker than to look them up
			list = append(list, rest[0])
		} else {
			list = append(list, g.lines.Get(in))
		}
	}
	return []*resource.Resource{g.tables.of(scope, list)}
}

// Touched says whether a change may alter the table of the View's proxies. Endpoints of services that have addresses do
// not; those of headless ones come as a change of the service. Of objects only the Sidecar and what it imports do.
func Touched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	return d.All || len(d.Services) > 0 || v.Sidecar != nil && d.ChangesVisibility()
}

// Computed is how many services' lines were really made since the start, for tests and metrics.
func (g *Generator) Computed() uint64 { return g.lines.Computed() }
