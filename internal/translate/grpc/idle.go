package grpc

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/destination"
)

// A gRPC client knows only the clusters that its routes reference, and none of weight 0. When a
// weight rises from 0, grpc-go selects the cluster for calls before its balancer has been updated,
// and fails them. So destinations of weight 0 have a route that no call matches: their connections
// are established before the first call.

// unusedPath is a path that no call has.
const unusedPath = "/meshpilot.Nobody/Calls"

// idleClusters returns the names of the clusters with weight 0 in the HTTP routes of the
// VirtualServices in from: sorted, without duplicates, and joined by ";". port is the port of
// destinations without one. It omits the only destination of a route, which is called whatever its
// weight. It also omits clusters that are not callable (isCallable): a client waits for every
// cluster that a route references.
func idleClusters(v *view.View, from []config.Key, port uint32) string {
	var names []string
	for _, k := range from {
		c := v.Snapshot.Config(k)
		if k.Kind != api.VirtualService || c == nil {
			continue
		}
		for _, h := range config.Spec[*networking.VirtualService](c).GetHttp() {
			for _, d := range h.GetRoute() {
				host := destination.Host(
					v,
					mesh.ResolveShortName(d.GetDestination().GetHost(), k.Namespace, v.Settings.Domain),
				)
				name := destination.Named(host, d.GetDestination(), port)
				if d.GetWeight() == 0 && len(h.GetRoute()) > 1 && isCallable(v, name) {
					names = append(names, name.String())
				}
			}
		}
	}
	return strings.Join(sortUnique(names), ";")
}

// isCallable reports whether gRPC clients can call a cluster: its service is known and Static, its
// port exists and is captured, and its subset exists or is "".
func isCallable(v *view.View, n mesh.ClusterName) bool {
	svc := v.Service(n.Host)
	if svc == nil || svc.Resolution != mesh.Static {
		return false
	}
	if p, ok := svc.Port(n.Port); !ok || !p.Protocol.Captured() {
		return false
	}
	if n.Subset == "" {
		return true
	}
	rule := v.DestinationRule(n.Host)
	return rule != nil && config.Subset(rule.Spec, n.Subset) != nil
}

// idleRoutes returns, for each of clusters (joined by ";"), a route to it that no call matches, so
// that clients load it in advance. It returns nil for "".
func idleRoutes(clusters string) []*routev3.Route {
	if clusters == "" {
		return nil
	}
	var list []*routev3.Route
	for name := range strings.SplitSeq(clusters, ";") {
		list = append(list, &routev3.Route{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: unusedPath}},
			Action: &routev3.Route_Route{
				Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: name}},
			},
		})
	}
	return list
}
