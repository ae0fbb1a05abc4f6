package analysis

import (
	"fmt"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// selfDiscoveryVariable is the proxy metadata that Envoy's zone-aware routing requires.
const selfDiscoveryVariable = "ISTIO_META_ENABLE_SELF_DISCOVERY"

// reportZoneAwareRouting adds Warnings for enabled zone-aware routing, in the mesh configuration
// and in DestinationRules. It adds none if MeshConfig.defaultConfig.proxyMetadata sets
// ISTIO_META_ENABLE_SELF_DISCOVERY to true. Otherwise proxies do not discover the proxies of their
// own workload, and Envoy uses all zones of a region alike. They are no Errors, because single pods
// may set the variable by annotation.
func (a *analyzer) reportZoneAwareRouting() {
	metadata := a.s.Settings.Mesh.GetDefaultConfig().GetProxyMetadata()
	if on, _ := strconv.ParseBool(metadata[selfDiscoveryVariable]); on {
		return
	}
	const reason = "has no effect in proxies without " +
		selfDiscoveryVariable + `: "true", which MeshConfig.defaultConfig.proxyMetadata does not set: ` +
		"they use all zones of a region alike"
	if isEnabled(a.s.Settings.Mesh.GetZoneAwareLbSetting()) {
		a.found = append(a.found, config.Problem{
			Field: "zoneAwareLbSetting", Reason: reason, Severity: config.Warning, Origin: "mesh configuration",
			Code: code.FieldWithoutEffect,
		})
	}
	for _, c := range a.s.Configs(api.DestinationRule) {
		for field, p := range config.TrafficPolicies(config.Spec[*networking.DestinationRule](c)) {
			a.reportZoneSettings(c, field, p, reason)
		}
	}
}

// reportZoneSettings adds a Warning with the given reason for each zone-aware setting of one
// traffic policy and of its ports. field is the policy's. Settings that are disabled have none.
func (a *analyzer) reportZoneSettings(c *config.Config, field string, p *networking.TrafficPolicy, reason string) {
	const setting = ".loadBalancer.zoneAwareLbSetting"
	if isEnabled(p.GetLoadBalancer().GetZoneAwareLbSetting()) {
		a.warn(code.FieldWithoutEffect, c, field+setting, reason)
	}
	for i, port := range p.GetPortLevelSettings() {
		if isEnabled(port.GetLoadBalancer().GetZoneAwareLbSetting()) {
			a.warn(code.FieldWithoutEffect, c, fmt.Sprintf("%s.portLevelSettings[%d]%s", field, i, setting), reason)
		}
	}
}

// isEnabled reports whether zone-aware routing is set and not explicitly disabled.
func isEnabled(z *networking.ZoneAwareLoadBalancerSetting) bool {
	return z != nil && (z.GetEnabled() == nil || z.GetEnabled().GetValue())
}
