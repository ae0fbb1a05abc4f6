package analysis

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reportGatewayServicePorts adds a Warning for each server of a Gateway whose port no Service of
// the selected proxies has, as service port or target port. Clients of these Services cannot reach
// it. It skips Gateways without a selector, of other APIs, or whose proxies have no Service, and
// servers with a bind. A Service with a named target port has any port.
func (a *analyzer) reportGatewayServicePorts() {
	served := map[string][]*mesh.Service{} // by selector
	for _, c := range a.s.Configs(api.Gateway) {
		spec := config.Spec[*networking.Gateway](c)
		if c.Extension != nil || len(spec.GetSelector()) == 0 {
			continue
		}
		text := snapshot.SelectorText(spec.GetSelector())
		services, known := served[text]
		if !known {
			services = a.servicesOfProxies(spec.GetSelector())
			served[text] = services
		}
		for i, server := range spec.GetServers() {
			n := server.GetPort().GetNumber()
			if len(services) > 0 && server.GetBind() == "" && !slices.ContainsFunc(services, func(s *mesh.Service) bool {
				return exposesPort(s, n)
			}) {
				a.warn(code.GatewayPortNotDefinedOnService, c, fmt.Sprintf("spec.servers[%d].port.number", i), fmt.Sprintf(
					"no Service of the selected proxies has port %d: clients cannot reach it, for instance through Service %q",
					n, services[0].Name))
			}
		}
	}
}

// exposesPort reports whether a Service has the port, or forwards one to it. It returns true if a
// target port has a name, because that may be any number.
func exposesPort(s *mesh.Service, number uint32) bool {
	return slices.ContainsFunc(s.Ports, func(p mesh.Port) bool {
		return p.Number == number || p.Target == number || p.TargetName != ""
	})
}

// servicesOfProxies returns the Services that select a known workload with the labels of selector,
// without duplicates, sorted by host and namespace. An empty selector matches no workload.
func (a *analyzer) servicesOfProxies(selector map[string]string) []*mesh.Service {
	var list []*mesh.Service
	for _, w := range a.s.Workloads() {
		if !snapshot.SelectorMatches(selector, w.Labels) {
			continue
		}
		for _, svc := range a.s.ServicesWithSelector(w.Namespace) {
			if snapshot.SelectorMatches(svc.Selector, w.Labels) && !slices.Contains(list, svc) {
				list = append(list, svc)
			}
		}
	}
	slices.SortFunc(list, func(x, y *mesh.Service) int {
		return cmp.Or(cmp.Compare(x.Host, y.Host), cmp.Compare(x.Namespace, y.Namespace))
	})
	return list
}
