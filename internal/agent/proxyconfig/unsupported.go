package proxyconfig

import (
	"fmt"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// unsupportedFields maps the fields that have no effect in the agent to the reason. Fields that
// only the control plane or the injector uses (interceptionMode, image, gatewayTopology …) do not
// belong here.
func unsupportedFields() map[string]string {
	return map[string]string{
		"availabilityZone":      "set the label topology.istio.io/locality instead",
		"discoveryRefreshDelay": "configuration is pushed, not polled",
		"privateKeyProvider":    "the released Envoy has no such extension",
		"sds":                   "certificates are always served by SDS, from the agent",
	}
}

// Warnings returns a warning for each field that is set but not supported, in the order of the API,
// or nil.
func Warnings(c *meshconfig.ProxyConfig) []string {
	var list []string
	reasons := unsupportedFields()
	message := c.ProtoReflect()
	for i := range message.Descriptor().Fields().Len() {
		field := message.Descriptor().Fields().Get(i)
		if why, ok := reasons[field.JSONName()]; ok && message.Has(field) {
			list = append(list, fmt.Sprintf("proxy configuration field %q has no effect: %s", field.JSONName(), why))
		}
	}
	return list
}
