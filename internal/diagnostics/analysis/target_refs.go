package analysis

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// reportTargetRefs adds a Warning for each targetRef of a policy to a Service, ServiceEntry or
// GatewayClass. Istio applies these policies at waypoints only, and this control plane has none: it
// is dangerous to believe such an AuthorizationPolicy to be in force. It checks
// AuthorizationPolicy, RequestAuthentication, Telemetry, WasmPlugin, TrafficExtension and
// EnvoyFilter, except objects that were converted from another API.
func (a *analyzer) reportTargetRefs() {
	for _, kind := range []api.Kind{
		api.AuthorizationPolicy,
		api.RequestAuthentication,
		api.Telemetry,
		api.WasmPlugin,
		api.TrafficExtension,
		api.EnvoyFilter,
	} {
		for _, c := range a.s.Configs(kind) {
			if c.Extension != nil {
				continue
			}
			for field, ref := range snapshot.TargetRefs(c) {
				advice := "select workloads with spec.selector"
				switch k := api.Kind(ref.GetKind()); k {
				case api.GatewayClass:
					advice = "name each Gateway"
					fallthrough
				case api.Service, api.ServiceEntry:
					a.warn(code.IneffectivePolicy, c, field, fmt.Sprintf(
						"policies of a %s apply at waypoints only, which do not exist here: the reference has no effect; %s",
						k, advice))
				}
			}
		}
	}
}
