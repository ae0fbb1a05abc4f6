package push

import "github.com/meshpilot/meshpilot/internal/xds/stream"

// DefaultNames returns the default of Options.Names. Proxies subscribe to clusters, route
// configurations and secrets. A mesh of 20,000 services with two ports each stays below these
// limits.
func DefaultNames() stream.NameLimits { return stream.NameLimits{Names: 50_000, Bytes: 8 << 20} }

// withDefaults returns l with the default for each limit that is not positive.
func withDefaults(l stream.NameLimits) stream.NameLimits {
	d := DefaultNames()
	if l.Names <= 0 {
		l.Names = d.Names
	}
	if l.Bytes <= 0 {
		l.Bytes = d.Bytes
	}
	return l
}
