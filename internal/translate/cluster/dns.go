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
	"github.com/meshpilot/meshpilot/internal/translate/destination"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
)

// resolve has Envoy resolve the names of the endpoints, which come with the cluster.
func (in OutboundInput) resolve(c *clusterv3.Cluster) {
	c.LoadAssignment = endpoint.Assignment(endpoint.Input{
		Cluster: in.Name(), Service: in.Service, Endpoints: in.Endpoints, Rule: in.Rule, Settings: in.Settings, Caller: in.Caller,
	})
	// Envoy refuses a LOGICAL_DNS cluster that has not exactly one endpoint.
	if in.Service.Resolution == mesh.DNSRoundRobin && count(c.LoadAssignment) == 1 {
		applyType(c, clusterv3.Cluster_LOGICAL_DNS)
	} else {
		applyType(c, clusterv3.Cluster_STRICT_DNS)
	}
	c.DnsLookupFamily = destination.LookupFamily(in.Proxy.IPv4, in.Proxy.IPv6)
	//nolint:staticcheck // the extension that replaces these two is not known to the tools that read config dumps
	c.DnsRefreshRate = positive(in.Settings.Mesh.GetDnsRefreshRate())
	//nolint:staticcheck // as above
	c.DnsJitter = positive(durationpb.New(cmp.Or(in.Settings.Features.DNSJitter, snapshot.DefaultDNSJitter)))
	c.RespectDnsTtl = true //nolint:staticcheck // as above
	c.TypedDnsResolverConfig = &corev3.TypedExtensionConfig{Name: "envoy.network.dns_resolver.cares", TypedConfig: resource.Pack(resolver())}
}

// resolver bounds how long Envoy waits for an answer.
//
// A cluster is not used before its names were asked for, and until then Envoy acknowledges no clusters, and at its start
// takes no listeners. With Envoy's defaults a name whose server is silent holds a proxy back for more than half a minute.
// Not to wait at all (wait_for_warm_on_init: false) is no way out: then each change of the cluster has it without endpoints
// until it has resolved anew, and most requests in that time fail. So it waits, but not for long.
func resolver() *caresv3.CaresDnsResolverConfig {
	return &caresv3.CaresDnsResolverConfig{
		QueryTimeoutSeconds: wrapperspb.UInt64(2),
		QueryTries:          wrapperspb.UInt32(2),
		// A socket that asks for ever keeps to a DNS server that may be gone, where connections are balanced by the kernel.
		UdpMaxQueries: wrapperspb.UInt32(100),
	}
}

func count(a *endpointv3.ClusterLoadAssignment) int {
	n := 0
	for _, l := range a.GetEndpoints() {
		n += len(l.GetLbEndpoints())
	}
	return n
}
