package bootstrap

import (
	"math"
	"strconv"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// layeredRuntime returns Envoy's runtime: the agent's defaults merged with
// ProxyConfig.runtimeValues, overridden by values set through the admin interface.
func layeredRuntime(config *meshconfig.ProxyConfig) *bootstrapv3.LayeredRuntime {
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{
		{
			Name:           "global config",
			LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: staticRuntime(config)},
		},
		{
			Name:           "admin",
			LayerSpecifier: &bootstrapv3.RuntimeLayer_AdminLayer_{AdminLayer: &bootstrapv3.RuntimeLayer_AdminLayer{}},
		},
	}}
}

// staticRuntime returns the agent's defaults merged with ProxyConfig.runtimeValues. An empty value
// removes a default. true and false become booleans, numbers become numbers, and other values
// strings.
func staticRuntime(config *meshconfig.ProxyConfig) *structpb.Struct {
	fields := map[string]*structpb.Value{
		// Regular expressions in routes may exceed Envoy's default limit of 100.
		"re2.max_program_size.error_level": structpb.NewNumberValue(32768),
		// Strip a URL fragment instead of rejecting the request, as before this feature: some
		// clients send fragments.
		"envoy.reloadable_features.http_reject_path_with_fragment": structpb.NewBoolValue(false),
	}
	for name, value := range config.GetRuntimeValues() {
		if value == "" { // removes a default
			delete(fields, name)
			continue
		}
		fields[name] = runtimeValue(value)
	}
	return &structpb.Struct{Fields: fields}
}

// runtimeValue converts "true" and "false" to a boolean, a text that strconv.ParseFloat accepts to
// a number, and any other to a string. Infinity and NaN, which JSON does not have, stay strings.
// The API has strings only, but Envoy requires booleans for feature flags.
func runtimeValue(text string) *structpb.Value {
	if text == "true" || text == "false" {
		return structpb.NewBoolValue(text == "true")
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(n, 0) && !math.IsNaN(n) {
		return structpb.NewNumberValue(n)
	}
	return structpb.NewStringValue(text)
}
