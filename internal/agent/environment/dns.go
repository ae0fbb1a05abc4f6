package environment

import (
	"net"
	"time"
)

// DefaultDNSAddress is where the DNS proxy listens by default, and where captured queries are
// redirected to.
const DefaultDNSAddress = "localhost:15053"

// DNS configures the agent's DNS server.
type DNS struct {
	// Capture enables it on sidecars (ISTIO_META_DNS_CAPTURE), Serve on any proxy
	// (ISTIO_META_ENABLE_DNS_SERVER). Both default to false.
	Capture, Serve bool
	// Address is its host:port (DNS_PROXY_ADDR, default localhost:15053).
	Address string
	// Parallel forwards each query to all upstream name servers at once (DNS_FORWARD_PARALLEL,
	// default false).
	Parallel bool
	// Timeout bounds each forwarded query (DNS_FORWARD_TIMEOUT, default 5 s).
	Timeout time.Duration
}

// readDNS returns the settings of the DNS proxy, and records an error for each invalid variable.
// The address (default localhost:15053) must be host:port, and the timeout (5 s) positive. Other
// settings are false by default.
func (r *reader) readDNS() DNS {
	const address = "DNS_PROXY_ADDR"
	d := DNS{
		Capture: r.readBool("ISTIO_META_DNS_CAPTURE", false), Serve: r.readBool("ISTIO_META_ENABLE_DNS_SERVER", false),
		Address:  r.readText(address, DefaultDNSAddress),
		Parallel: r.readBool("DNS_FORWARD_PARALLEL", false),
		Timeout:  r.readDuration("DNS_FORWARD_TIMEOUT", 5*time.Second),
	}
	if _, _, err := net.SplitHostPort(d.Address); err != nil {
		r.addError(address, "%q is not host:port", d.Address)
	}
	if d.Timeout == 0 {
		r.addError("DNS_FORWARD_TIMEOUT", "must be more than 0")
	}
	return d
}
