package analysis

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reportSubsetEndpoints adds a Warning for each subset that selects none of the endpoints of its
// services. It skips services without any endpoint, and services whose endpoints DNS resolves.
// DestinationRules that were converted from the Gateway API, and subsets without labels, are not
// checked either.
func (a *analyzer) reportSubsetEndpoints() {
	for _, c := range a.s.Configs(api.DestinationRule) {
		spec := config.Spec[*networking.DestinationRule](c)
		if c.Extension != nil || len(spec.Subsets) == 0 {
			continue
		}
		endpoints := a.endpointsOf(mesh.ResolveShortName(spec.Host, c.Namespace, a.s.Settings.Domain))
		if len(endpoints) == 0 {
			continue
		}
		for i, subset := range spec.Subsets {
			if len(subset.Labels) == 0 {
				continue
			}
			if !slices.ContainsFunc(endpoints, func(e *mesh.Endpoint) bool {
				return snapshot.SelectorMatches(subset.Labels, e.Labels)
			}) {
				a.warn(code.DestinationRuleSubsetNotSelectPods, c, fmt.Sprintf("spec.subsets[%d].labels", i), fmt.Sprintf(
					"no endpoint of %q has the labels %s: requests that are routed to subset %q get 503",
					spec.Host, snapshot.SelectorText(subset.Labels), subset.Name))
			}
		}
	}
}

// endpointsOf returns the endpoints of all services for the host (servicesFor) whose resolution is
// Static, or nil.
func (a *analyzer) endpointsOf(host mesh.Hostname) []*mesh.Endpoint {
	var list []*mesh.Endpoint
	for _, svc := range a.servicesFor(host) {
		if svc.Resolution == mesh.Static {
			list = append(list, a.s.Endpoints(svc.ServiceKey).Endpoints...)
		}
	}
	return list
}
