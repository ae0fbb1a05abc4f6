package sidecar

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// wantedNames returns the names that the sidecar's resources of a type refer to: endpoints of
// clusters, routes of listeners. It is locked.
func (p *Proxy) wantedNames(typeURL string) map[string][]string {
	names := map[string][]string{}
	for _, resource := range p.have[typeURL] {
		switch typeURL {
		case api.ClusterType:
			c := new(clusterv3.Cluster)
			if resource.Resource.UnmarshalTo(c) == nil && c.GetType() == clusterv3.Cluster_EDS {
				names[api.EndpointType] = append(names[api.EndpointType], c.Name)
			}
		case api.ListenerType:
			l := new(listenerv3.Listener)
			if resource.Resource.UnmarshalTo(l) == nil {
				names[api.RouteType] = append(names[api.RouteType], routeNames(l)...)
			}
		}
	}
	for typeURL, list := range names {
		slices.Sort(list)
		names[typeURL] = slices.Compact(list)
	}
	return names
}

func routeNames(l *listenerv3.Listener) []string {
	var names []string
	for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		for _, f := range chain.GetFilters() {
			m := new(hcmv3.HttpConnectionManager)
			if f.GetTypedConfig().MessageIs(m) && f.GetTypedConfig().UnmarshalTo(m) == nil && m.GetRds() != nil {
				names = append(names, m.GetRds().GetRouteConfigName())
			}
		}
	}
	return names
}

// subscriptionChanges returns the requests that change one set of wanted names to another.
func subscriptionChanges(before, now map[string][]string) []*discoveryv3.DeltaDiscoveryRequest {
	var list []*discoveryv3.DeltaDiscoveryRequest
	for _, typeURL := range []string{api.EndpointType, api.RouteType} {
		r := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}
		r.ResourceNamesSubscribe = subtractNames(now[typeURL], before[typeURL])
		r.ResourceNamesUnsubscribe = subtractNames(before[typeURL], now[typeURL])
		if len(r.ResourceNamesSubscribe)+len(r.ResourceNamesUnsubscribe) > 0 {
			list = append(list, r)
		}
	}
	return list
}

func subtractNames(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return slices.Contains(others, name) })
}

// Endpoints returns the endpoints that the sidecar has of a cluster, in the order in which they
// were sent.
func (p *Proxy) Endpoints(cluster string) []*endpointv3.LbEndpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpointsOf(cluster)
}

// endpointsOf is Endpoints of a proxy that is locked.
func (p *Proxy) endpointsOf(cluster string) []*endpointv3.LbEndpoint {
	a := new(endpointv3.ClusterLoadAssignment)
	p.readResource(api.EndpointType, cluster, a)
	var list []*endpointv3.LbEndpoint
	for _, locality := range a.Endpoints {
		list = append(list, locality.LbEndpoints...)
	}
	return list
}

// Addresses returns the addresses of a cluster's endpoints, sorted.
func (p *Proxy) Addresses(cluster string) []string {
	var list []string
	for _, e := range p.Endpoints(cluster) {
		list = append(list, e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress())
	}
	slices.Sort(list)
	return list
}
