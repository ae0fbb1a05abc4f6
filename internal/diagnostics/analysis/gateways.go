package analysis

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reportGatewaySelectors adds a Warning for each Gateway that selects no known workload. If no
// workload is known at all, as with manually started proxies, it adds none. Gateways without a
// selector are skipped.
func (a *analyzer) reportGatewaySelectors() {
	found := map[string]bool{}
	for _, c := range a.s.Configs(api.Gateway) {
		labels := config.Spec[*networking.Gateway](c).GetSelector()
		if len(labels) == 0 {
			continue
		}
		text := snapshot.SelectorText(labels)
		if _, looked := found[text]; !looked {
			selected, known := a.s.HasWorkload(labels)
			found[text] = selected || !known
		}
		if !found[text] {
			a.warn(code.ReferencedResourceNotFound, c, "spec.selector",
				"no known workload has the labels "+text+": no gateway serves it")
		}
	}
}
