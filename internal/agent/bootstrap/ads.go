package bootstrap

import (
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// xdsCluster is the static cluster of the control plane; users know its statistics by this name.
const xdsCluster = "xds-grpc"

// dynamicResources has Envoy subscribe to clusters and listeners over one ADS stream to xdsCluster.
// Updates are incremental unless StateOfTheWorld is set. The node is sent only in the first request
// of a stream, and reconnects are 0.5 s to 10 s apart.
func dynamicResources(in Input) *bootstrapv3.Bootstrap_DynamicResources {
	protocol := corev3.ApiConfigSource_DELTA_GRPC
	if in.StateOfTheWorld {
		protocol = corev3.ApiConfigSource_GRPC
	}
	return &bootstrapv3.Bootstrap_DynamicResources{
		CdsConfig: adsSource(),
		LdsConfig: adsSource(),
		AdsConfig: &corev3.ApiConfigSource{
			ApiType:             protocol,
			TransportApiVersion: corev3.ApiVersion_V3,
			// Upstream Envoy's node is 61 KB and would otherwise be sent with every request, ACKs
			// included.
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{
				TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{
					ClusterName: xdsCluster,
					// Envoy's default backoff rises to 30 s: too long without configuration after a
					// control plane restart.
					RetryPolicy: &corev3.RetryPolicy{RetryBackOff: &corev3.BackoffStrategy{
						BaseInterval: durationpb.New(500 * time.Millisecond),
						MaxInterval:  durationpb.New(10 * time.Second),
					}},
				}},
			}},
		},
	}
}

// adsSource returns the configuration source for resources of the ADS stream. It has no timeout for
// the first response: an Envoy that gave up would report itself live and serve nothing.
func adsSource() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		InitialFetchTimeout:   durationpb.New(0),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}
