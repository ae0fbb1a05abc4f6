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

// applyDiscovery sets the discovery type of the cluster: original destination
// (usesOriginalDestination, by p too), else EDS if the proxies receive the endpoints that way
// (usesEDS), else DNS (applyDNS). For the original destination it also overrides the port if port
// requires that. It does nothing for a dynamic service, whose type applyDynamic sets.
func (in OutboundInput) applyDiscovery(c *clusterv3.Cluster, port mesh.Port, p *networking.TrafficPolicy) {
	switch {
	case isDynamic(in.Service): // applyDynamic sets the type.
	case in.usesOriginalDestination(p):
		applyType(c, clusterv3.Cluster_ORIGINAL_DST)
		// Only a ServiceEntry names another port for an address that the caller chose (resolution
		// NONE with targetPort).
		if port.OverridesDialed {
			c.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{
				UpstreamPortOverride: wrapperspb.UInt32(port.Target),
			}}
		}
	case in.usesEDS():
		applyEDS(c)
	default:
		in.applyDNS(c)
	}
}

// usesOriginalDestination reports whether calls go to the address that the caller chose. It returns
// true for services with resolution Passthrough that are not served over EDS and, except at
// routers, if the load balancer of p is PASSTHROUGH.
func (in OutboundInput) usesOriginalDestination(p *networking.TrafficPolicy) bool {
	if p.GetLoadBalancer().GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH &&
		in.Proxy.Type != mesh.RouterProxy {
		return true
	}
	return in.Service.Resolution == mesh.Passthrough && !in.usesEDS()
}

// usesEDS reports whether the proxies receive the endpoints of the service by EDS.
func (in OutboundInput) usesEDS() bool {
	return endpoint.UsesEDS(in.Service, in.Proxy.Type, in.Settings.Features)
}

// applyType sets the discovery type of c.
func applyType(c *clusterv3.Cluster, t clusterv3.Cluster_DiscoveryType) {
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: t}
}

// applyEDS subscribes to the endpoints over ADS. They have the name of the cluster. This is Envoy's
// default, but clients other than Envoy and tools that read dumps look for service_name. There is
// no initial fetch timeout: a cluster without endpoints would fail requests.
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

// positiveOrNil returns d, or nil if d is nil or not positive. Envoy refuses such values in many
// fields.
func positiveOrNil(d *durationpb.Duration) *durationpb.Duration {
	if d.AsDuration() <= 0 {
		return nil
	}
	return d
}
