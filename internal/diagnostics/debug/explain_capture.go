package debug

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/base/portrange"
	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// captureAnnotation is the prefix of the annotations of pods that limit the capture of traffic.
const captureAnnotation = "traffic.sidecar.istio.io/"

// captureNotes returns one note if the proxy does not capture the connection, so that the path does
// not apply, and otherwise nil. Calls with the direction Direct have none. It knows annotations of
// the pod and the interception mode, but no exclusions in the settings of the mesh.
func (e *explanation) captureNotes(call explain.Call) []string {
	reason := ""
	switch {
	case call.Direction == explain.Direct:
	case e.view.Key.Interception == "NONE":
		reason = "the interception mode of the proxy is NONE"
	case call.Direction == explain.Inbound:
		reason = e.inboundExclusion(call.To.Port())
	default:
		reason = e.outboundExclusion(call.To)
	}
	if reason == "" {
		return nil
	}
	return []string{"the connection is not captured, so it bypasses the proxy and the path does not apply: " + reason}
}

// inboundExclusion returns why connections to a port of the pod are not captured, or "". If
// includeInboundPorts is set, even to nothing, and does not contain "*", it decides alone.
// Otherwise excludeInboundPorts decides.
func (e *explanation) inboundExclusion(port uint16) string {
	included, set := e.captureSetting("includeInboundPorts")
	switch {
	case set && !slices.Contains(included, "*"):
		if !hasPort(included, port) {
			return fmt.Sprintf("annotation %sincludeInboundPorts does not list port %d", captureAnnotation, port)
		}
	default:
		if excluded, _ := e.captureSetting("excludeInboundPorts"); hasPort(excluded, port) {
			return fmt.Sprintf("annotation %sexcludeInboundPorts lists port %d", captureAnnotation, port)
		}
	}
	return ""
}

// outboundExclusion returns why connections to a destination are not captured, or "". The
// annotations decide in this order: excludeOutboundPorts, includeOutboundPorts,
// excludeOutboundIPRanges, includeOutboundIPRanges. A port that includeOutboundPorts lists is
// captured whatever the ranges are; others are not excluded by it. The ranges do not exclude
// explain.UnresolvedAddress.
func (e *explanation) outboundExclusion(to netip.AddrPort) string {
	if excluded, _ := e.captureSetting("excludeOutboundPorts"); hasPort(excluded, to.Port()) {
		return fmt.Sprintf("annotation %sexcludeOutboundPorts lists port %d", captureAnnotation, to.Port())
	}
	if included, _ := e.captureSetting("includeOutboundPorts"); hasPort(included, to.Port()) {
		return ""
	}
	if to.Addr() == netip.MustParseAddr(explain.UnresolvedAddress) {
		return ""
	}
	if excluded, _ := e.captureSetting("excludeOutboundIPRanges"); hasAddress(excluded, to.Addr()) {
		return fmt.Sprintf("annotation %sexcludeOutboundIPRanges contains %s", captureAnnotation, to.Addr())
	}
	included, set := e.captureSetting("includeOutboundIPRanges")
	if set && !slices.Contains(included, "*") && !hasAddress(included, to.Addr()) {
		return fmt.Sprintf("annotation %sincludeOutboundIPRanges does not contain %s", captureAnnotation, to.Addr())
	}
	return ""
}

// captureSetting returns the values of the pod's capture annotation with this last part of its
// name, and whether the annotation is set.
func (e *explanation) captureSetting(name string) (values []string, set bool) {
	text, set := e.proxy.Metadata.Annotations[captureAnnotation+name]
	for value := range strings.SplitSeq(text, ",") {
		if value = strings.TrimSpace(value); value != "" {
			values = append(values, value)
		}
	}
	return values, set
}

// hasPort reports whether a list of ports and ranges of ports contains a port, or "*". Invalid items
// are skipped.
func hasPort(list []string, port uint16) bool {
	return slices.ContainsFunc(list, func(text string) bool {
		r, err := portrange.Parse(text)
		return text == "*" || err == nil && r.Contains(port)
	})
}

// hasAddress reports whether one of the ranges contains the address or is "*". Malformed ranges are
// skipped.
func hasAddress(ranges []string, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(text string) bool {
		r, err := netip.ParsePrefix(text)
		return text == "*" || err == nil && r.Contains(a)
	})
}

// resolutionNotes returns a note on which DNS server, the agent's or another, resolves the host of
// an outbound call, and to which address. It returns nil for other calls, an IP address, an unknown
// host, and if the caller has chosen the destination.
func (e *explanation) resolutionNotes(call explain.Call) []string {
	host := e.question.Host()
	if _, err := netip.ParseAddr(host); err == nil || call.Direction != explain.Outbound || e.question.To != "" {
		return nil
	}
	svc := e.serviceOf(host)
	captured := bool(e.proxy.Metadata.DNSCapture)
	switch {
	case svc == nil: // hostNotes reports it
		return nil
	case captured && len(svc.Addresses) > 0:
		return []string{fmt.Sprintf("DNS: the agent beside the proxy answers %s with %s", svc.Host,
			strings.Join(svc.Addresses, ", "))}
	case captured && svc.Headless:
		return []string{fmt.Sprintf("DNS: the agent beside the proxy answers %s with the addresses of its endpoints",
			svc.Host)}
	case svc.Provider == mesh.Kubernetes && svc.Headless:
		return []string{fmt.Sprintf("DNS: the cluster's DNS answers %s with the addresses of pods", svc.Host)}
	case svc.Provider == mesh.Kubernetes:
		return []string{fmt.Sprintf("DNS: the cluster's DNS answers %s with %s", svc.Host,
			strings.Join(svc.Addresses, ", "))}
	case captured:
		return []string{fmt.Sprintf("DNS: %s has no address in the mesh, so the resolver of the pod decides it",
			svc.Host)}
	default:
		return []string{fmt.Sprintf(
			"DNS: the resolver of the pod must know %s, or the call fails before the proxy; with DNS_CAPTURE the agent would answer", svc.Host)}
	}
}
