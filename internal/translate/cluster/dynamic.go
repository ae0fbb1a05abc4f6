package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	dfpclusterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"

	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// applyDynamic makes the cluster a dynamic forward proxy: it connects to the host that each request
// or TLS connection names. A filter of the listener resolves the host into the same cache. http is
// only read and must have its final TLS settings: unless it verifies the certificate against the
// host, the cluster allows insecure options.
func applyDynamic(c *clusterv3.Cluster, p Proxy, http *httpProtocol) {
	// Envoy requires this flag if the certificate is not verified against the request's host. It
	// also does so for a cluster without TLS.
	checked := http.options.GetUpstreamHttpProtocolOptions()
	c.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: "envoy.clusters.dynamic_forward_proxy",
		TypedConfig: resource.Pack(&dfpclusterv3.ClusterConfig{
			ClusterImplementationSpecifier: &dfpclusterv3.ClusterConfig_DnsCacheConfig{
				DnsCacheConfig: destination.DNSCache(p.LookupFamily),
			},
			AllowInsecureClusterOptions: !checked.GetAutoSni() || !checked.GetAutoSanValidation(),
		}),
	}}
	c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
}
