package endpoint

import (
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// selectEndpoints returns the endpoints that serve the port of m and have the labels of its subset,
// in the order of the set. It omits endpoints that the caller cannot reach or see, and addresses
// that are names unless Envoy resolves them. It also omits draining endpoints unless the service
// keeps sessions, and unhealthy ones if m is healthyOnly.
func (in Input) selectEndpoints(m member) []*mesh.Endpoint {
	resolved, name := in.resolvedByEnvoy(), in.portName(m.port)
	// Envoy sends only existing sessions to draining endpoints.
	sessions := in.Service.Session.Enabled()
	var list []*mesh.Endpoint
	for _, e := range in.Endpoints.Endpoints {
		switch {
		case e.ServicePort != name, len(m.labels) > 0 && !snapshot.SelectorMatches(m.labels, e.Labels):
		case e.Health == mesh.Draining && !sessions, e.Health == mesh.Unhealthy && m.healthyOnly:
		case !in.isReachable(e), !in.Caller.seesNetwork(e.Network):
		case e.Address == "" && !in.Caller.throughGateway(e): // no route known
		case e.Address != "" && !resolved && !isStaticAddress(e.Address): // Envoy refuses names in EDS.
		default:
			list = append(list, e)
		}
	}
	return list
}

// portName returns the ServicePort of the endpoints of a port. It is the port's name, except while
// a port of a Kubernetes Service has been renamed and its EndpointSlices have not. Then it is the
// old name: no port has it, and its endpoints are at the port's target. If the target is a name, it
// is the only such name, and port must be the only port without endpoints.
func (in Input) portName(port mesh.Port) string {
	if in.Service.Provider != mesh.Kubernetes {
		return port.Name
	}
	used := map[string]bool{}
	for _, e := range in.Endpoints.Endpoints {
		if e.ServicePort == port.Name {
			return port.Name
		}
		used[e.ServicePort] = true
	}
	bare := 0 // ports without endpoints under their own name
	for _, p := range in.Service.Ports {
		if !used[p.Name] {
			bare++
		}
		delete(used, p.Name)
	}
	for _, e := range in.Endpoints.Endpoints {
		if used[e.ServicePort] && (e.Port == port.Target || port.Target == 0 && bare == 1 && len(used) == 1) {
			return e.ServicePort
		}
	}
	return port.Name
}

// isStaticAddress reports whether an address is an IP or a Unix domain socket, which need no DNS.
func isStaticAddress(address string) bool {
	if config.IsSocket(address) {
		return true
	}
	_, err := netip.ParseAddr(address)
	return err == nil
}
