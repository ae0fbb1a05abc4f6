package cluster

import (
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
)

// discover says how Envoy finds the endpoints.
func (in OutboundInput) discover(c *clusterv3.Cluster, port mesh.Port, p *networking.TrafficPolicy) {
	switch {
	case dynamic(in.Service): // see applyDynamic
	case in.byAddress(p):
		applyType(c, clusterv3.Cluster_ORIGINAL_DST)
		// A VirtualService may send calls for another port here, so the override is needed also where targetPort equals number.
		if port.OverridesDialed {
			c.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{
				UpstreamPortOverride: wrapperspb.UInt32(port.Target),
			}}
		}
	case endpoint.ByEDS(in.Service, in.Proxy.Type):
		applyEDS(c)
	default:
		in.resolve(c)
	}
}

// byAddress says that calls go where the caller chose: to pods behind a headless service, or as a DestinationRule says
// (PASSTHROUGH).
func (in OutboundInput) byAddress(p *networking.TrafficPolicy) bool {
	if p.GetLoadBalancer().GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH && in.Proxy.Type != mesh.RouterProxy {
		return true
	}
	return in.Service.Resolution == mesh.Passthrough && !endpoint.ByEDS(in.Service, in.Proxy.Type)
}

func applyType(c *clusterv3.Cluster, t clusterv3.Cluster_DiscoveryType) {
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: t}
}

// applyEDS has Envoy ask for the endpoints over ADS. It waits for them without limit: a cluster without endpoints would
// answer requests with errors.
func applyEDS(c *clusterv3.Cluster) {
	applyType(c, clusterv3.Cluster_EDS)
	c.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{
		ServiceName: c.Name,
		EdsConfig: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			InitialFetchTimeout:   durationpb.New(0),
			ResourceApiVersion:    corev3.ApiVersion_V3,
		},
	}
}

// positive gives a duration only if Envoy would take it where it asks for more than nothing.
func positive(d *durationpb.Duration) *durationpb.Duration {
	if d.AsDuration() <= 0 {
		return nil
	}
	return d
}
