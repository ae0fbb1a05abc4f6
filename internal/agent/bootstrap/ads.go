package bootstrap

import (
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// xdsCluster is the static cluster that leads to the control plane; users know its statistics by this name.
const xdsCluster = "xds-grpc"

// dynamicResources says that clusters and listeners come over one ADS stream.
func dynamicResources(in Input) *bootstrapv3.Bootstrap_DynamicResources {
	protocol := corev3.ApiConfigSource_DELTA_GRPC
	if in.StateOfTheWorld {
		protocol = corev3.ApiConfigSource_GRPC
	}
	return &bootstrapv3.Bootstrap_DynamicResources{
		CdsConfig: overADS(),
		LdsConfig: overADS(),
		AdsConfig: &corev3.ApiConfigSource{
			ApiType:             protocol,
			TransportApiVersion: corev3.ApiVersion_V3,
			// Upstream Envoy's node is 61 KB, and would else go with every request, ACKs included.
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{
				TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
					ClusterName: xdsCluster,
					// Envoy's own back-off goes up to 30 s: too long to be without news after a control plane's restart.
					RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
						BaseInterval: durationpb.New(500 * time.Millisecond),
						MaxInterval:  durationpb.New(10 * time.Second),
					}},
				}},
			}},
		},
	}
}

// overADS waits for the first answer for as long as it takes: an Envoy that gave up would serve nothing and call itself
// live.
func overADS() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   durationpb.New(0),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}
