package nametable

import (
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/memo"
)

// Name is the name of the only resource. istiod's has none; a name lets a client report its
// version.
const Name = "nametable"

// Generator generates the name tables of Views. It is safe for concurrent use.
type Generator struct {
	lines  *memo.Table[input, *lines]
	tables tables
}

// NewGenerator returns a Generator with empty caches.
func NewGenerator() *Generator {
	return &Generator{lines: memo.New(newLines)}
}

// Scope returns the part of a Key that a table depends on: which services the proxies see, which of
// their addresses they can use, and for headless services where the proxies run.
func Scope(k view.Key) view.Key {
	return view.Key{
		AttachedObjects:  k.ObjectsFor(view.ServiceReader),
		Type:             k.Type,
		Namespace:        k.Namespace,
		Location:         view.Location{Network: k.Network, Cluster: k.Cluster},
		AddressFamilies:  k.AddressFamilies,
		VirtualAddresses: k.VirtualAddresses,
	}
}

// All returns the name table of the View's proxies, always exactly one resource, named Name.
// Clients subscribe to the type without a name. Like istiod, it does not require the node metadata
// DNS_CAPTURE: proxies without DNS capture do not subscribe.
func (g *Generator) All(v *view.View) []*resource.Resource {
	scope := Scope(v.Key)
	rest := g.tables.lastLines(scope)
	list := make([]*lines, 0, len(v.Services))
	for _, svc := range v.Services {
		in, ok := inputFor(v, svc)
		if !ok {
			continue
		}
		for len(rest) > 0 && rest[0].in.service.Host < svc.Host {
			rest = rest[1:]
		}
		// Most are unchanged, and comparing is faster than a lookup.
		if len(rest) > 0 && rest[0].in == in {
			list = append(list, rest[0])
		} else {
			list = append(list, g.lines.Get(in))
		}
	}
	return []*resource.Resource{g.tables.tableFor(scope, list)}
}

// Touched reports whether a change may alter the table of the View's proxies. Endpoints of services
// with addresses do not matter; a change of a headless service's endpoints is reported in d as a
// change of the service. Of objects, only the Sidecar and its imports matter.
func Touched(v *view.View, _ *snapshot.Snapshot, d snapshot.Delta) bool {
	return d.All || len(d.Services) > 0 || v.Sidecar != nil && d.ChangesVisibility()
}

// Computed returns how many times the lines of a service have been generated since the start.
func (g *Generator) Computed() uint64 { return g.lines.Computed() }
