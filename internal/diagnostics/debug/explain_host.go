package debug

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// workloadPort returns the workload's own address and the target port that a service port maps to.
// If the workload does not serve that port for the host, the port is returned unchanged. An unknown
// address is explain.UnresolvedAddress. The host is compared by its first label.
func (e *explanation) workloadPort(host string, port uint16) netip.AddrPort {
	at := netip.MustParseAddr(explain.UnresolvedAddress)
	if len(e.proxy.Addresses) > 0 {
		at = e.proxy.Addresses[0]
	}
	for _, i := range e.view.Inbound {
		name, _, _ := strings.Cut(string(i.Service.Host), ".")
		if i.Port.Number == uint32(port) &&
			(strings.EqualFold(host, name) || strings.HasPrefix(strings.ToLower(host), name+".")) {
			return netip.AddrPortFrom(at, uint16(i.TargetPort))
		}
	}
	return netip.AddrPortFrom(at, port)
}

// serviceOf returns the service that a host names for the proxy, or nil.
func (e *explanation) serviceOf(host string) *mesh.Service {
	return e.view.ServiceNamed(host, e.proxy.DNSDomain)
}

// hostNotes returns hints about the host of an outbound call: the service does not have the port,
// or the proxy has no such service. It returns nothing for other calls, for an IP address, and if
// the caller has chosen the destination.
func (e *explanation) hostNotes(call explain.Call) []string {
	host := e.question.Host()
	if _, err := netip.ParseAddr(host); err == nil || call.Direction != explain.Outbound || e.question.To != "" {
		return nil
	}
	svc := e.serviceOf(host)
	if svc == nil {
		return []string{fmt.Sprintf(
			"the proxy has no service %q: DNS decides the address, and the placeholder %s is used here; --to sets another one",
			host, explain.UnresolvedAddress)}
	}
	number := uint32(call.To.Port())
	if _, ok := svc.Port(number); ok {
		return nil
	}
	var ports []string
	for _, port := range svc.Ports {
		ports = append(ports, fmt.Sprintf("%d (%s)", port.Number, port.Name))
	}
	return []string{fmt.Sprintf(
		"service %s has no port %d, so none of its configuration applies; its ports are %s",
		svc.Host, number, strings.Join(ports, ", "))}
}

// addressOf returns the address to which a host resolves for the proxy's workload: that of the
// service with that name, or explain.UnresolvedAddress if there is none or it has no address. The
// port is ignored.
func (e *explanation) addressOf(host string, _ uint16) netip.Addr {
	if svc := e.serviceOf(host); svc != nil {
		if a, ok := e.view.AddressOf(svc); ok {
			return a
		}
	}
	return netip.MustParseAddr(explain.UnresolvedAddress)
}
