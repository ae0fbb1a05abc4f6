package policy

import (
	"net"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"
)

// Tunnel configures how connections to a cluster are tunnelled in HTTP requests to a forward proxy,
// which the endpoints of the cluster are (TrafficPolicy.TunnelSettings). The zero value is no
// tunnel. Only TCP proxies of listeners use it; HTTP requests are not tunnelled.
type Tunnel struct {
	// Target is the address that the forward proxy connects to, "host:port".
	Target string
	// Post uses POST instead of CONNECT.
	Post bool
}

// TunnelOf returns the tunnel of the cluster of a subset, or of the whole host if subset is "". A
// subset does not inherit the host's tunnel, and port level settings have none.
func TunnelOf(rule *networking.DestinationRule, subset string) Tunnel {
	policy := rule.GetTrafficPolicy()
	if subset != "" {
		policy = Subset(rule, subset).GetTrafficPolicy()
	}
	t := policy.GetTunnel()
	if t == nil {
		return Tunnel{}
	}
	return Tunnel{
		Target: net.JoinHostPort(t.GetTargetHost(), strconv.FormatUint(uint64(t.GetTargetPort()), 10)),
		Post:   t.GetProtocol() == "POST",
	}
}
