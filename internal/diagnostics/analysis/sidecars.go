package analysis

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// checkSidecars reports Sidecars without effect because an older one applies to the whole
// namespace, and egress proxies that do not exist.
func (a *analyzer) checkSidecars() {
	general := map[string]*config.Config{}
	for _, c := range slices.SortedStableFunc(slices.Values(a.s.Configs(api.Sidecar)), config.CompareAge) {
		spec := config.Spec[*networking.Sidecar](c)
		if len(spec.GetWorkloadSelector().GetLabels()) == 0 {
			if first := general[c.Namespace]; first != nil {
				a.warn(
					code.MultipleSidecarsWithoutWorkloadSelectors,
					c,
					"spec.workloadSelector",
					fmt.Sprintf(
						"is not set, nor is it in Sidecar %q, which is older: this one has no effect",
						first.Name,
					),
				)
			} else {
				general[c.Namespace] = c
			}
		}
		a.reportEgressProxy(c, spec.GetOutboundTrafficPolicy().GetEgressProxy())
	}
}

// reportEgressProxy reports a missing host or subset of the destination for traffic without a
// route. The port is not checked. Without a host it does nothing.
func (a *analyzer) reportEgressProxy(c *config.Config, d *networking.Destination) {
	const field = "spec.outboundTrafficPolicy.egressProxy"
	if d.GetHost() == "" {
		return
	}
	host := mesh.ResolveShortName(d.Host, c.Namespace, a.s.Settings.Domain)
	services := a.servicesFor(host)
	switch {
	case len(services) == 0:
		a.warn(
			code.ReferencedResourceNotFound,
			c,
			field+".host",
			fmt.Sprintf("no service has the host %q: connections to unknown destinations fail", host),
		)
	case d.Subset != "" && !a.hasSubset(c.Namespace, services, d.Subset):
		a.warn(
			code.ReferencedResourceNotFound,
			c,
			field+".subset",
			fmt.Sprintf(
				"no DestinationRule defines a subset %q of %q: connections to unknown destinations fail",
				d.Subset,
				host,
			),
		)
	}
}
