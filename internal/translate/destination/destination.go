package destination

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// maxAliases bounds a chain of services that stand for one another; a longer one is a cycle.
const maxAliases = 10

// Named gives the outbound cluster of a destination (VirtualService Destination), of which Host has given the host, for traffic that was
// caught on listenerPort. A destination without a port keeps that port, even where the target has only another one.
func Named(host mesh.Hostname, d *networking.Destination, listenerPort uint32) mesh.ClusterName {
	return mesh.ClusterName{Direction: mesh.Outbound, Port: Port(d, listenerPort), Subset: d.GetSubset(), Host: host}
}

// Port gives the service port that a destination means for traffic caught on listenerPort.
func Port(d *networking.Destination, listenerPort uint32) uint32 {
	if n := d.GetPort().GetNumber(); n != 0 {
		return n
	}
	return listenerPort
}

// Host gives the service that a host stands for: itself, or for another name of a service (a Kubernetes ExternalName)
// that service.
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

// Shares gives the clusters of a TCP or TLS route (TCPRoute.route, TLSRoute.route). A single destination gets all traffic
// whatever its weight says; of several, those of weight 0 get none and are left out.
//
// Unlike a request's, a connection's destination without a port means the only port of the service it names, and the
// listener's where there are several.
func Shares(v *view.View, vs *snapshot.VirtualService, route []*networking.RouteDestination, listenerPort uint32) []Share {
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

func connectionCluster(v *view.View, vs *snapshot.VirtualService, d *networking.Destination, listenerPort uint32) mesh.ClusterName {
	host := Host(v, vs.Resolve(d.GetHost()))
	if svc := v.Service(host); svc != nil && len(svc.Ports) == 1 {
		listenerPort = svc.Ports[0].Number
	}
	return Named(host, d, listenerPort)
}
