package policy

import (
	"net"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"
)

// Tunnel is how the connections to a cluster are wrapped into HTTP requests to a forward proxy, which the cluster's endpoints
// are (TrafficPolicy.TunnelSettings). The zero value is: not at all. It is for the TCP proxies of listeners: requests are not
// tunnelled.
type Tunnel struct {
	// Target is where the forward proxy is to connect to, "host:port".
	Target string
	// Post says that it is asked by POST rather than by CONNECT.
	Post bool
}

// TunnelOf gives the tunnel of the cluster of a subset, "" for that of the whole host. Unlike the other parts of a policy a
// subset has none but its own, and ports make no difference.
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
