package bootstrap

import (
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// selfDiscoveryCluster returns the cluster of all proxies of the same workload, whose endpoints
// come by EDS over ADS. Envoy never sends requests to it: zone-aware routing reads the distribution
// of its endpoints over zones. A control plane that does not know the cluster sends no endpoints,
// and Envoy's start waits for the timeout, so that is short (5 s).
func selfDiscoveryCluster() *clusterv3.Cluster {
	ads := &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		InitialFetchTimeout:   durationpb.New(5 * time.Second),
	}
	return &clusterv3.Cluster{
		Name:                 mesh.LocalCluster,
		AltStatName:          mesh.LocalCluster + ";", // as in Istio's metrics
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads},
		ConnectTimeout:       durationpb.New(time.Second),
	}
}
