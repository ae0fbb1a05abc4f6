package listener

import (
	"maps"
	"slices"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// defaultSampling is the share of requests, in percent, that are traced without anybody asking for it.
const defaultSampling = 1

// tracing has spans made for requests (MeshConfig.enableTracing, ProxyConfig.tracing); nil for none. The tracer that they
// are sent to is the bootstrap's: without one there, nothing is.
func tracing(mesh *meshconfig.MeshConfig) *hcmv3.HttpConnectionManager_Tracing {
	if !mesh.GetEnableTracing() {
		return nil
	}
	t := mesh.GetDefaultConfig().GetTracing()
	sampling := t.GetSampling()
	if sampling <= 0 || sampling > 100 {
		sampling = defaultSampling
	}
	out := &hcmv3.HttpConnectionManager_Tracing{
		ClientSampling:  &typev3.Percent{Value: 100},
		RandomSampling:  &typev3.Percent{Value: sampling},
		OverallSampling: &typev3.Percent{Value: 100},
	}
	if n := t.GetMaxPathTagLength(); n > 0 {
		out.MaxPathTagLength = wrapperspb.UInt32(n)
	}
	for _, name := range slices.Sorted(maps.Keys(t.GetCustomTags())) {
		if tag := customTag(name, t.GetCustomTags()[name]); tag != nil {
			out.CustomTags = append(out.CustomTags, tag)
		}
	}
	return out
}

// customTag translates one entry of Tracing.customTags, nil if it names no source.
func customTag(name string, in *meshconfig.Tracing_CustomTag) *tracingv3.CustomTag {
	out := &tracingv3.CustomTag{Tag: name}
	switch {
	case name == "":
		return nil
	case in.GetLiteral().GetValue() != "":
		out.Type = &tracingv3.CustomTag_Literal_{Literal: &tracingv3.CustomTag_Literal{Value: in.GetLiteral().GetValue()}}
	case in.GetEnvironment().GetName() != "":
		out.Type = &tracingv3.CustomTag_Environment_{Environment: &tracingv3.CustomTag_Environment{
			Name: in.GetEnvironment().GetName(), DefaultValue: in.GetEnvironment().GetDefaultValue(),
		}}
	case in.GetHeader().GetName() != "":
		out.Type = &tracingv3.CustomTag_RequestHeader{RequestHeader: &tracingv3.CustomTag_Header{
			Name: in.GetHeader().GetName(), DefaultValue: in.GetHeader().GetDefaultValue(),
		}}
	default:
		return nil
	}
	return out
}
