package listener

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	procv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// endpointMetadata is the namespace of metadata in which an endpoint picker sets the chosen
// endpoint and receives the endpoint that answered.
const endpointMetadata = "envoy.lb"

// pickerTimeout is the message timeout of pickers, as in Istio. Envoy 1.40 does not apply it in the
// body mode FULL_DUPLEX_STREAMED.
const pickerTimeout = 1000 * time.Second

// noCluster is the name of a cluster that does not exist.
const noCluster = "none"

// endpointPickerFilter returns the filter that asks the endpoint pickers of InferencePools. It is
// disabled unless a route configures it, with the picker's cluster.
func endpointPickerFilter() *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{
		Name:     "envoy.filters.http.ext_proc",
		Disabled: true,
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: resource.Pack(&procv3.ExternalProcessor{
			GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: noCluster},
			}},
			MessageTimeout: durationpb.New(pickerTimeout),
			MetadataOptions: &procv3.MetadataOptions{
				ReceivingNamespaces:  &procv3.MetadataOptions_MetadataNamespaces{Untyped: []string{endpointMetadata}},
				ForwardingNamespaces: &procv3.MetadataOptions_MetadataNamespaces{Untyped: []string{endpointMetadata}},
			},
		})},
	}
}
