package endpoint

import (
	"net/netip"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const unixPrefix = "unix://"

// selected gives the endpoints that serve the cluster's port and are of its subset, in the order of the set.
func (in Input) selected(m member) []*mesh.Endpoint {
	resolved, name := in.resolved(), in.portName(m.port)
	sessions := in.Service.Session.Kept() // lead to endpoints that drain, to which Envoy sends nothing else
	var list []*mesh.Endpoint
	for _, e := range in.Endpoints.Endpoints {
		switch {
		case e.ServicePort != name, !covers(m.labels, e.Labels):
		case e.Health == mesh.Draining && !sessions, e.Health == mesh.Unhealthy && m.healthyOnly:
		case !in.local(e), !in.Caller.inView(e.Network):
		case e.Address == "" && !in.Caller.throughGateway(e): // nobody knows the way
		case e.Address != "" && !resolved && !fixed(e.Address): // EDS refuses names
		default:
			list = append(list, e)
		}
	}
	return list
}

// portName gives the name under which the endpoints of a port are: its own, or while a Kubernetes Service's port was renamed and
// its EndpointSlices were not yet, the old one. That is a name of no port now, of endpoints at the port's target; where the
// target is named, the one such name that is left for the one port that has nothing else.
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
	bare := 0 // ports without endpoints of their own
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

// covers says whether all the wanted labels are there.
func covers(want, have map[string]string) bool {
	for k, v := range want {
		if got, there := have[k]; !there || got != v {
			return false
		}
	}
	return true
}

// fixed says whether an address is one that needs no resolving.
func fixed(address string) bool {
	if strings.HasPrefix(address, unixPrefix) {
		return true
	}
	_, err := netip.ParseAddr(address)
	return err == nil
}
