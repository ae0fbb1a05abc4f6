package namespaces

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
)

var _ registry.Forker = (*Filter)(nil)

// Fork returns a Filter with the same state, which changes independently of f. It copies the index
// of all objects.
func (f *Filter) Fork() registry.Converter {
	next := *f
	next.guard = f.guard.Clone()
	next.namespaces = make(map[string]*namespace, len(f.namespaces))
	for name, n := range f.namespaces {
		next.namespaces[name] = &namespace{labels: n.labels, selected: n.selected, objects: maps.Clone(n.objects)}
	}
	return &next
}
