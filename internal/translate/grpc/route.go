package grpc

import (
	"slices"
	"strconv"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// envoyRouteName returns the name that the RouteConfiguration for one service's port has for
// Envoys, "HOST:PORT".
func envoyRouteName(n mesh.ClusterName) string {
	return string(n.Host) + ":" + strconv.FormatUint(uint64(n.Port), 10)
}

// sortUnique sorts names in place and returns them without duplicates.
func sortUnique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

type routeInput struct {
	of   *resource.Resource
	name mesh.ClusterName
	idle string // clusters of weight 0, see idleClusters
}

// reduceRoute pairs the RouteConfiguration of one service's port with a copy that has only the
// fields that gRPC reads (proposals A28, A31, A44). The copy's only virtual host is for all
// domains. Routes with a match that no gRPC call can meet are left out; routes to idle clusters are
// added.
func reduceRoute(in routeInput) *reduced {
	c := new(routev3.RouteConfiguration)
	decodeResource(in.of, c)
	out := &routev3.RouteConfiguration{Name: in.name.String()}
	// There is exactly one, because the route is named after a service.
	if len(c.GetVirtualHosts()) > 0 {
		h := c.GetVirtualHosts()[0]
		host := &routev3.VirtualHost{
			Name:                 h.GetName(),
			Domains:              []string{"*"},
			TypedPerFilterConfig: faultConfigs(h.GetTypedPerFilterConfig()),
		}
		for _, r := range h.GetRoutes() {
			if m := reduceMatch(r.GetMatch()); m != nil {
				host.Routes = append(host.Routes, reduceAction(r, m))
			}
		}
		host.Routes = append(host.Routes, idleRoutes(in.idle)...)
		out.VirtualHosts = append(out.VirtualHosts, host)
	}
	made := encodeResource(out.Name, in.of.TypeURL, out)
	made.Refers = in.of.Refers
	return keepTogether(in.of, made)
}

// reduceAction returns the route r with match m and an action that gRPC supports. A positive
// timeout becomes the maximum stream duration, unless that is set. A retry policy with 0 retries is
// dropped, and configs of filters other than faults are removed, in r's weighted clusters too.
// Redirects and direct responses are unchanged: gRPC fails calls that match them.
func reduceAction(r *routev3.Route, m *routev3.RouteMatch) *routev3.Route {
	out := &routev3.Route{
		Name:                 r.GetName(),
		Match:                m,
		Action:               r.GetAction(),
		Metadata:             r.GetMetadata(),
		TypedPerFilterConfig: faultConfigs(r.GetTypedPerFilterConfig()),
	}
	a := r.GetRoute()
	if a == nil {
		return out
	}
	action := &routev3.RouteAction{
		ClusterSpecifier:  a.GetClusterSpecifier(),
		HashPolicy:        a.GetHashPolicy(),
		RetryPolicy:       a.GetRetryPolicy(),
		MaxStreamDuration: a.GetMaxStreamDuration(),
	}
	for _, c := range action.GetWeightedClusters().GetClusters() {
		c.TypedPerFilterConfig = faultConfigs(c.GetTypedPerFilterConfig())
	}
	if action.GetRetryPolicy().GetNumRetries() != nil && action.GetRetryPolicy().GetNumRetries().GetValue() == 0 {
		action.RetryPolicy = nil
	}
	if t := a.GetTimeout(); t.AsDuration() > 0 && action.GetMaxStreamDuration().GetMaxStreamDuration() == nil {
		// gRPC supports no other timeout, and none of 0.
		action.MaxStreamDuration = &routev3.RouteAction_MaxStreamDuration{MaxStreamDuration: t}
	}
	out.Action = &routev3.Route_Route{Route: action}
	return out
}

// faultConfigs returns of all filter configurations only the fault filter's, the only one that
// clients know, or nil without one. gRPC refuses routes with configurations of unknown filters.
func faultConfigs(all map[string]*anypb.Any) map[string]*anypb.Any {
	f, ok := all[faultFilter]
	if !ok {
		return nil
	}
	return map[string]*anypb.Any{faultFilter: f}
}

type directInput struct {
	name mesh.ClusterName
	from config.Key
}

// directRoute returns a RouteConfiguration that routes all calls to the cluster in.name, by which
// it is named.
func directRoute(in directInput) *resource.Resource {
	cluster := in.name.String()
	r := encodeResource(cluster, api.RouteType, &routev3.RouteConfiguration{Name: cluster,
		VirtualHosts: []*routev3.VirtualHost{{
			Name: envoyRouteName(in.name), Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{}},
				Action: &routev3.Route_Route{
					Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: cluster}},
				},
			}},
		}}}, in.from)
	r.Refers = func() []string { return []string{cluster} }
	return r
}
