package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/discovery/options"
)

// TestGatewayAPIEnvironment: everything is enabled by default, and each part can be disabled by Istio's variable.
func TestGatewayAPIEnvironment(t *testing.T) {
	read := func(variable string) options.GatewayAPI {
		e := environment{lookup: func(name string) (string, bool) { return "false", name == variable }}
		var o options.Options
		e.applyWrites(&o)
		if e.err != nil {
			t.Error(e.err)
		}
		return o.GatewayAPI
	}
	for variable, want := range map[string]options.GatewayAPI{
		"":                                {},
		"PILOT_ENABLE_GATEWAY_API":        {Off: true},
		"PILOT_ENABLE_GATEWAY_API_STATUS": {NoStatus: true},
		"PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER":   {NoDeployments: true},
		"PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER": {NoClasses: true},
		"PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS": {NoCopiedMetadata: true},
	} {
		if diff := cmp.Diff(want, read(variable)); diff != "" {
			t.Errorf("%s=false: -want +got:\n%s", variable, diff)
		}
	}
}
