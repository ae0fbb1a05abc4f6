package ingress

import "github.com/meshpilot/meshpilot/internal/ingest/registry"

var _ registry.Renewer = (*Converter)(nil)

// Renew returns a Converter with the same options, without objects and callbacks.
func (c *Converter) Renew() registry.Converter {
	o := c.options
	o.OnNodeAddressesChanged = nil
	return New(o)
}
