package proxyconfig

import (
	"fmt"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// later are the fields that have no effect in the agent yet, and why. Fields that only the control plane or the
// injector reads (interceptionMode, image, gatewayTopology …) do not belong here.
func later() map[string]string {
	return map[string]string{
		"availabilityZone":      "set the label topology.istio.io/locality instead",
		"discoveryRefreshDelay": "configuration is pushed, nothing is polled",
		"privateKeyProvider":    "the released Envoy has no such extension",
		"sds":                   "certificates always come by SDS, from the agent",
	}
}

// Warnings names the fields that are set and have no effect, in the order of the API.
func Warnings(c *meshconfig.ProxyConfig) []string {
	var list []string
	reasons := later()
	message := c.ProtoReflect()
	for i := range message.Descriptor().Fields().Len() {
		field := message.Descriptor().Fields().Get(i)
		if why, ok := reasons[field.JSONName()]; ok && message.Has(field) {
			list = append(list, fmt.Sprintf("proxy configuration field %q has no effect: %s", field.JSONName(), why))
		}
	}
	return list
}
