package consul

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
)

var _ registry.Forker = (*Converter)(nil)

// Fork returns a Converter with the same state, which changes independently of c.
func (c *Converter) Fork() registry.Converter {
	f := *c
	f.guard, f.objects = c.guard.Clone(), maps.Clone(c.objects)
	return &f
}
