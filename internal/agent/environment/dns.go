package environment

import (
	"net"
	"time"
)

// DNS is how the agent answers the application's DNS queries.
type DNS struct {
	// Capture has a sidecar answer (ISTIO_META_DNS_CAPTURE), Serve any proxy (ISTIO_META_ENABLE_DNS_SERVER).
	Capture, Serve bool
	// Address is where, host:port (DNS_PROXY_ADDR, localhost:15053 if not set).
	Address string
	// Parallel asks all other name servers at once (DNS_FORWARD_PARALLEL).
	Parallel bool
	// Timeout bounds queries to them (DNS_FORWARD_TIMEOUT, 5 s).
	Timeout time.Duration
}

func (r *reader) dns() DNS {
	const address = "DNS_PROXY_ADDR"
	d := DNS{
		Capture: r.boolean("ISTIO_META_DNS_CAPTURE", false), Serve: r.boolean("ISTIO_META_ENABLE_DNS_SERVER", false),
		Address:  r.otherwise(address, "localhost:15053"),
		Parallel: r.boolean("DNS_FORWARD_PARALLEL", false), Timeout: r.duration("DNS_FORWARD_TIMEOUT", 5*time.Second),
	}
	if _, _, err := net.SplitHostPort(d.Address); err != nil {
		r.fail(address, "%q is not host:port", d.Address)
	}
	if d.Timeout == 0 {
		r.fail("DNS_FORWARD_TIMEOUT", "must be more than 0")
	}
	return d
}
