package serviceentry

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
)

var _ registry.Forker = (*Converter)(nil)

// Fork returns a Converter with the same state, which changes independently of c.
func (c *Converter) Fork() registry.Converter {
	f := *c
	f.guard = c.guard.Clone()
	f.distributions, f.namespaces, f.objects = maps.Clone(c.distributions), maps.Clone(c.namespaces), maps.Clone(c.objects)
	return &f
}
