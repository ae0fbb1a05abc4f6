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
		o := options.Defaults()
		e.applyWrites(&o)
		if e.err != nil {
			t.Error(e.err)
		}
		return o.GatewayAPI
	}
	all := options.GatewayAPI{
		Enabled: true, WriteStatus: true, Deploy: true, BindServices: true, CreateClasses: true, CopyMetadata: true,
	}
	for variable, disable := range map[string]func(*options.GatewayAPI){
		"":                                func(*options.GatewayAPI) {},
		"PILOT_ENABLE_GATEWAY_API":        func(o *options.GatewayAPI) { o.Enabled = false },
		"PILOT_ENABLE_GATEWAY_API_STATUS": func(o *options.GatewayAPI) { o.WriteStatus = false },
		"PILOT_ENABLE_GATEWAY_API_DEPLOYMENT_CONTROLLER":   func(o *options.GatewayAPI) { o.Deploy = false },
		"ENABLE_GATEWAY_API_MANUAL_DEPLOYMENT":             func(o *options.GatewayAPI) { o.BindServices = false },
		"PILOT_ENABLE_GATEWAY_API_GATEWAYCLASS_CONTROLLER": func(o *options.GatewayAPI) { o.CreateClasses = false },
		"PILOT_ENABLE_GATEWAY_API_COPY_LABELS_ANNOTATIONS": func(o *options.GatewayAPI) { o.CopyMetadata = false },
	} {
		want := all
		disable(&want)
		if diff := cmp.Diff(want, read(variable)); diff != "" {
			t.Errorf("%s=false: -want +got:\n%s", variable, diff)
		}
	}
}
