package cluster

import (
	"cmp"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
)

// applyDNS embeds the endpoints in the cluster, whose names Envoy then resolves, with the mesh's
// refresh rate and jitter; Envoy respects TTLs. The type is LOGICAL_DNS for resolution
// DNSRoundRobin, or DNS with RacesAddresses, with exactly one endpoint, otherwise STRICT_DNS. The
// families to look up are Proxy.LookupFamily, or both with RacesAddresses.
func (in OutboundInput) applyDNS(c *clusterv3.Cluster) {
	c.LoadAssignment = endpoint.Assignment(endpoint.Input{
		Cluster:   in.Name(),
		Service:   in.Service,
		Endpoints: in.Endpoints,
		Rule:      in.Rule,
		Settings:  in.Settings,
		Caller:    in.Caller,
	})
	races := in.Service.Resolution == mesh.DNS && in.Service.RacesAddresses
	// Envoy refuses a LOGICAL_DNS cluster that does not have exactly one endpoint.
	if (races || in.Service.Resolution == mesh.DNSRoundRobin) && endpointCount(c.LoadAssignment) == 1 {
		applyType(c, clusterv3.Cluster_LOGICAL_DNS)
	} else {
		applyType(c, clusterv3.Cluster_STRICT_DNS)
	}
	c.DnsLookupFamily = in.Proxy.LookupFamily
	if races {
		c.DnsLookupFamily = clusterv3.Cluster_ALL
	}
	//nolint:staticcheck // the extension that replaces these two is not known to the tools that read config dumps
	c.DnsRefreshRate = positiveOrNil(in.Settings.Mesh.GetDnsRefreshRate())
	//nolint:staticcheck // as above
	c.DnsJitter = positiveOrNil(durationpb.New(cmp.Or(in.Settings.Features.DNSJitter, snapshot.DefaultDNSJitter)))
	c.RespectDnsTtl = true //nolint:staticcheck // as above
	c.TypedDnsResolverConfig = &corev3.TypedExtensionConfig{
		Name:        "envoy.network.dns_resolver.cares",
		TypedConfig: resource.Pack(resolver()),
	}
}

// resolver returns the config of the DNS resolver, which limits how long Envoy waits for an answer.
//
// A cluster stays warming until its names have been queried. Until then Envoy acknowledges no
// clusters, and at startup accepts no listeners. With Envoy's defaults, a name whose server does
// not answer delays a proxy for more than half a minute. Not waiting at all (wait_for_warm_on_init:
// false) is worse: after each change the cluster has no endpoints until it has resolved them again,
// and most requests fail. So it waits with a short timeout.
func resolver() *caresv3.CaresDnsResolverConfig {
	return &caresv3.CaresDnsResolverConfig{
		QueryTimeoutSeconds: wrapperspb.UInt64(2),
		QueryTries:          wrapperspb.UInt32(2),
		// A socket that is never replaced stays bound to one DNS server, even after it is gone,
		// where the kernel balances connections.
		UdpMaxQueries: wrapperspb.UInt32(100),
	}
}

// endpointCount returns the number of endpoints in all localities of a, 0 for nil.
func endpointCount(a *endpointv3.ClusterLoadAssignment) int {
	n := 0
	for _, l := range a.GetEndpoints() {
		n += len(l.GetLbEndpoints())
	}
	return n
}
