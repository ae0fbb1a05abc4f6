package push

import "github.com/meshpilot/meshpilot/internal/xds/stream"

// Defaults of Options.Names. Proxies subscribe to clusters, route configurations and secrets. A
// mesh of 20,000 services with two ports each stays below these limits.
const (
	defaultNames     = 50_000
	defaultNameBytes = 8 << 20
)

// withDefaults returns l with the default for each limit that is not positive.
func withDefaults(l stream.NameLimits) stream.NameLimits {
	if l.Names <= 0 {
		l.Names = defaultNames
	}
	if l.Bytes <= 0 {
		l.Bytes = defaultNameBytes
	}
	return l
}
