package gatewayapi

import "github.com/meshpilot/meshpilot/internal/ingest/registry"

var _ registry.Renewer = (*Converter)(nil)

// Renew returns a Converter with the same options, without objects and callbacks.
func (c *Converter) Renew() registry.Converter {
	o := c.options
	o.OnStatusesChanged, o.OnDeploymentsChanged, o.OnReferencesChanged = nil, nil, nil
	return New(o)
}
