package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dfpclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// applyDynamic has the cluster reach the host that each request or TLS connection is for. A filter before it looks the name
// up in the same cache.
func applyDynamic(c *clusterv3.Cluster, p Proxy, http *httpProtocol) {
	// Envoy wants to be told that the server is not checked by the request's host: it takes no connection to be without
	// TLS for granted.
	checked := http.options.GetUpstreamHttpProtocolOptions()
	c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: "envoy.clusters.dynamic_forward_proxy",
		TypedConfig: resource.Pack(&dfpclusterv3.ClusterConfig{
			ClusterImplementationSpecifier: &dfpclusterv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: destination.DNSCache(p.IPv4, p.IPv6)},
			AllowInsecureClusterOptions:    !checked.GetAutoSni() || !checked.GetAutoSanValidation(),
		}),
	}}
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
}
