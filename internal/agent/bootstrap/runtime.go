package bootstrap

import (
	"strconv"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// runtime is Envoy's feature flags: the agent's, with ProxyConfig.runtimeValues over them, then what is set at run time
// by way of the admin interface.
func runtime(config *meshconfig.ProxyConfig) *bootstrapv3.LayeredRuntime {
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{
		{Name: "global config", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: staticRuntime(config)}},
		{Name: "admin", LayerSpecifier: &bootstrapv3.RuntimeLayer_AdminLayer_{AdminLayer: &bootstrapv3.RuntimeLayer_AdminLayer{}}},
	}}
}

func staticRuntime(config *meshconfig.ProxyConfig) *structpb.Struct {
	fields := map[string]*structpb.Value{
		// Regular expressions in routes may be larger than Envoy's default of 100 allows.
		"re2.max_program_size.error_level": structpb.NewNumberValue(32768),
		// A fragment is stripped rather than refused: clients that send one have always been served.
		"envoy.reloadable_features.http_reject_path_with_fragment": structpb.NewBoolValue(false),
	}
	for name, value := range config.GetRuntimeValues() {
		if value == "" { // takes a default away
			delete(fields, name)
			continue
		}
		fields[name] = runtimeValue(value)
	}
	return &structpb.Struct{Fields: fields}
}

// runtimeValue gives a value its type: the API has strings only, and Envoy reads flags from booleans only.
func runtimeValue(text string) *structpb.Value {
	if text == "true" || text == "false" {
		return structpb.NewBoolValue(text == "true")
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return structpb.NewNumberValue(n)
	}
	return structpb.NewStringValue(text)
}
