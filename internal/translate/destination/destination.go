package destination

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// maxAliases is the longest chain of aliases that Host follows; a longer one is taken for a cycle.
const maxAliases = 10

// Named returns the name of the outbound cluster of destination d for traffic that was captured on
// listenerPort. host is the result of Host. A destination without a port keeps listenerPort, even
// if the service has only one port and it differs.
func Named(host mesh.Hostname, d *networking.Destination, listenerPort uint32) mesh.ClusterName {
	return mesh.ClusterName{Direction: mesh.Outbound, Port: Port(d, listenerPort), Subset: d.GetSubset(), Host: host}
}

// Port returns the port of a destination, or listenerPort if it names none.
func Port(d *networking.Destination, listenerPort uint32) uint32 {
	if n := d.GetPort().GetNumber(); n != 0 {
		return n
	}
	return listenerPort
}

// Host returns the host that calls to host reach. It follows aliases (a Kubernetes ExternalName) to
// the first host that is not an alias in the View. That need not be a service of the View. After
// maxAliases steps it stops, and returns the host that it has reached.
func Host(v *view.View, host mesh.Hostname) mesh.Hostname {
	for range maxAliases {
		svc := v.Service(host)
		if svc == nil || svc.Resolution != mesh.Alias || svc.AliasOf == "" {
			return host
		}
		host = svc.AliasOf
	}
	return host
}

// Share is one destination of a weighted route. Weights are relative to the sum of all.
type Share struct {
	Cluster mesh.ClusterName
	Weight  uint32
}

// Shares returns the clusters of a TCP or TLS route of vs (TCPRoute.route, TLSRoute.route). A
// single destination receives all traffic, whatever its weight. Of several, those with weight 0 are
// left out, so the result may be nil.
//
// Unlike in an HTTP route, a destination without a port refers to the only port of its service, or
// to listenerPort if the service is unknown or has several.
func Shares(
	v *view.View,
	vs *snapshot.VirtualService,
	route []*networking.RouteDestination,
	listenerPort uint32,
) []Share {
	var shares []Share
	for _, r := range route {
		weight := uint32(max(r.GetWeight(), 0))
		if len(route) == 1 {
			weight = max(weight, 1)
		}
		if weight > 0 {
			shares = append(shares, Share{connectionCluster(v, vs, r.GetDestination(), listenerPort), weight})
		}
	}
	return shares
}

// connectionCluster returns the cluster of one destination of a TCP or TLS route, after aliases are
// followed (Host). A destination without a port refers to the only port of its service, or to
// listenerPort if the service is unknown or has several.
func connectionCluster(
	v *view.View,
	vs *snapshot.VirtualService,
	d *networking.Destination,
	listenerPort uint32,
) mesh.ClusterName {
	host := Host(v, vs.ResolveHost(d.GetHost()))
	if svc := v.Service(host); svc != nil && len(svc.Ports) == 1 {
		listenerPort = svc.Ports[0].Number
	}
	return Named(host, d, listenerPort)
}

// Unknown returns the name of the cluster for connections to destinations that are not in the mesh,
// by the outboundTrafficPolicy: mesh.BlackHoleCluster unless it allows any destination, else the
// cluster of its egress proxy, else mesh.PassthroughCluster.
func Unknown(v *view.View) string {
	u := v.OutboundTrafficPolicy()
	switch {
	case !u.AllowAny:
		return mesh.BlackHoleCluster
	case u.EgressProxy != nil:
		return Named(Host(v, mesh.Hostname(u.EgressProxy.GetHost())), u.EgressProxy, 0).String()
	default:
		return mesh.PassthroughCluster
	}
}

// UnknownRequests returns the name of the cluster for requests to hosts that are not in the mesh,
// or "" if the outboundTrafficPolicy refuses them. It is mesh.DynamicDNSCluster if the policy
// resolves hosts, otherwise the result of Unknown.
func UnknownRequests(v *view.View) string {
	u := v.OutboundTrafficPolicy()
	switch {
	case !u.AllowAny:
		return ""
	case u.ResolveByHost:
		return mesh.DynamicDNSCluster
	default:
		return Unknown(v)
	}
}
