package explain

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

// endpointAddress returns the address of an endpoint: "IP:port", a socket path, or "internal" and a
// listener name.
func endpointAddress(e *endpointv3.LbEndpoint) string {
	a := e.GetEndpoint().GetAddress()
	switch {
	case a.GetPipe() != nil:
		return a.GetPipe().GetPath()
	case a.GetEnvoyInternalAddress() != nil:
		return "internal " + a.GetEnvoyInternalAddress().GetServerListenerName()
	default:
		return fmt.Sprintf("%s:%d", bracketHost(a.GetSocketAddress().GetAddress()), a.GetSocketAddress().GetPortValue())
	}
}

// bracketHost encloses an IPv6 address in brackets, for use before a port. It returns other hosts
// unchanged.
func bracketHost(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// localityText returns REGION/ZONE/SUBZONE without empty parts at the end.
func localityText(l *corev3.Locality) string {
	return strings.TrimRight(l.GetRegion()+"/"+l.GetZone()+"/"+l.GetSubZone(), "/")
}

// maxEndpointsTold limits the number of endpoints that a line lists.
const maxEndpointsTold = 8

// endpointsText lists up to maxEndpointsTold endpoints with locality, transport and priority, and
// the number of the others. Shares are shown if there is more than one.
func endpointsText(list []Endpoint) string {
	var parts []string
	for i, e := range list {
		if i == maxEndpointsTold {
			parts = append(parts, fmt.Sprintf("and %d more", len(list)-i))
			break
		}
		text := e.Address
		if len(list) > 1 {
			text = formatPercent(e.Share) + " " + text
		}
		var more []string
		if e.Locality != "" {
			more = append(more, e.Locality)
		}
		if e.Transport != "" {
			more = append(more, "in "+e.Transport)
		}
		if e.Priority > 0 {
			more = append(more, fmt.Sprintf("priority %d", e.Priority))
		}
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// formatPercent formats a share: "25%", "33.3%".
func formatPercent(share float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.1f", 100*share), "0"), ".") + "%"
}
