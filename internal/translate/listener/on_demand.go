package listener

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ondemandv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/on_demand/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"google.golang.org/protobuf/types/known/durationpb"
)

// fetchTimeout is how long a request or connection waits for a cluster that is fetched on demand.
// Afterwards it fails as if the cluster did not exist.
const fetchTimeout = 5 * time.Second

// onDemandFilter returns an HTTP filter that fetches the cluster of a request from the control
// plane if the proxy does not have it.
func onDemandFilter() *ondemandv3.OnDemand {
	return &ondemandv3.OnDemand{Odcds: &ondemandv3.OnDemandCds{
		Source:  clusterSource(),
		Timeout: durationpb.New(fetchTimeout),
	}}
}

// onDemandConnections returns the setting of a TCP proxy that fetches the cluster of a connection
// from the control plane if the proxy does not have it.
func onDemandConnections() *tcpv3.TcpProxy_OnDemand {
	return &tcpv3.TcpProxy_OnDemand{OdcdsConfig: clusterSource(), Timeout: durationpb.New(fetchTimeout)}
}

// clusterSource returns the config source of clusters that are fetched on demand: ADS.
func clusterSource() *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}
}

// pinnedClusters returns the clusters that a listener uses without fetching them on demand: of
// telemetry, access policies (inbound), Redis commands and SDS providers. A name may occur more
// than once. It returns nil if the proxies fetch none on demand.
func (a listenerContext) pinnedClusters(s *Spec) []string {
	if !a.onDemand {
		return nil
	}
	names := slices.Clone(a.telemetry.Clusters)
	if a.access != nil && s.Inbound {
		names = append(names, a.access.clusters...)
	}
	for _, c := range append(slices.Clone(s.Chains), s.Default) {
		if c.TCP != nil && c.TCP.Redis {
			names = append(names, c.TCP.clusterNames()...)
		}
		if provider := c.TLS.providerCluster(); provider != "" {
			names = append(names, provider)
		}
	}
	return names
}
