package route

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// extensionOf returns the extension of the HTTP route with index i of a VirtualService, or nil if
// it has none.
func extensionOf(vs *snapshot.VirtualService, i int) *config.HTTPExtension {
	if x := vs.Config.Extension; x != nil && i < len(x.HTTP) {
		return &x.HTTP[i]
	}
	return nil
}

// extend applies the extension of the rule r with index i, if it has one, to its route out:
// prefixes of whole path elements, redirects by expression, the share of invalid backends, and
// filters. out.TypedPerFilterConfig must not be nil. Requests to invalid backends are answered with
// an error, and so are requests to a backend that extendFilters refuses, because its endpoint
// picker is not visible. With a picker, the timeout of the rule is also the idle timeout.
func (t *translation) extend(out *routev3.Route, r *networking.HTTPRoute, i int) {
	x := extensionOf(t.uses.vs, i)
	if x == nil {
		return
	}
	if p, ok := out.GetMatch().GetPathSpecifier().(*routev3.RouteMatch_Prefix); ok && x.PathElements {
		out.Match.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: p.Prefix}
	}
	if redirect := out.GetRedirect(); redirect != nil && x.RedirectPattern != "" {
		redirect.PathRewriteSpecifier = &routev3.RedirectAction_RegexRewrite{RegexRewrite: &matcherv3.RegexMatchAndSubstitute{
			Pattern: regexMatcher(x.RedirectPattern), Substitution: x.RedirectTo,
		}}
	}
	t.extendFilters(out, r, x)
	if action := out.GetRoute(); action != nil {
		addInvalidShare(action, x, r)
	}
}

// invalidCluster is the name of a cluster that never exists. Requests that are routed to it are
// answered with the status of cluster_not_found_response_code.
const invalidCluster = "invalid-backend"

// addInvalidShare adds to the action of the rule r the share of requests for backends that cannot
// be used. They are answered with 503 if x.InvalidStatus is 503, otherwise with 500. A single
// destination then has its weight, also 0, beside that share. It does nothing if x.InvalidWeight is
// 0.
func addInvalidShare(action *routev3.RouteAction, x *config.HTTPExtension, r *networking.HTTPRoute) {
	if x.InvalidWeight == 0 {
		return
	}
	clusters := action.GetWeightedClusters()
	if clusters == nil { // a single destination, whose header operations have been merged with the rule's
		clusters = &routev3.WeightedCluster{Clusters: []*routev3.WeightedCluster_ClusterWeight{{
			Name:   action.GetCluster(),
			Weight: wrapperspb.UInt32(uint32(max(r.GetRoute()[0].GetWeight(), 0))), //nolint:gosec // not negative
		}}}
		action.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: clusters}
	}
	clusters.Clusters = append(clusters.Clusters, &routev3.WeightedCluster_ClusterWeight{
		Name: invalidCluster, Weight: wrapperspb.UInt32(x.InvalidWeight),
	})
	action.ClusterNotFoundResponseCode = routev3.RouteAction_INTERNAL_SERVER_ERROR
	if x.InvalidStatus == 503 {
		action.ClusterNotFoundResponseCode = routev3.RouteAction_SERVICE_UNAVAILABLE
	}
}

// rankedRoute is an encoded route with its position among all routes of a virtual host.
type rankedRoute struct {
	order string
	*routes
}

// rankedRoutes returns the encoded routes of a VirtualService with an extension, in the order of
// matching. Matches for other proxies, and rules without a match or an action, have none. Rules
// without an extension are skipped. The clusters of authorizers and endpoint pickers are added to
// each route's clusters.
func (t *translation) rankedRoutes() []rankedRoute {
	var list []rankedRoute
	for i, r := range t.uses.vs.Spec.GetHttp() {
		x := extensionOf(t.uses.vs, i)
		for _, m := range r.GetMatch() {
			if x == nil || !t.applies(m) {
				continue
			}
			if made := t.newRoute(r, m); made != nil {
				t.extend(made, r, i)
				encoded := encodeRoutes([]*routev3.Route{made})
				for _, a := range x.Authorizers() {
					encoded.addCluster(t.authorizerCluster(a))
				}
				for _, p := range x.Pickers() {
					encoded.addCluster(t.pickerCluster(p))
				}
				list = append(list, rankedRoute{x.Order, encoded})
			}
		}
	}
	sortRanked(list)
	return list
}

// sortRanked sorts list by order; routes with the same order keep theirs.
func sortRanked(list []rankedRoute) {
	slices.SortStableFunc(list, func(a, b rankedRoute) int { return strings.Compare(a.order, b.order) })
}

// mergeRanked returns the ranked routes of several VirtualServices as one list, in the order of
// matching. Its clusters are sorted, without duplicates; the pinned ones follow the order of the
// routes.
func mergeRanked(lists ...[]rankedRoute) *routes {
	all := slices.Concat(lists...)
	sortRanked(all)
	out := new(routes)
	for _, r := range all {
		out.encoded = append(out.encoded, r.encoded...)
		out.clusters, out.pinned = append(out.clusters, r.clusters...), append(out.pinned, r.pinned...)
	}
	slices.Sort(out.clusters)
	out.clusters = slices.Compact(out.clusters)
	return out
}

// extendedRoutes returns the merged routes of the VirtualServices for a host whose extension takes
// precedence over VirtualServices that users wrote (Gateway API). If private ones of the caller's
// namespace have routes, only these are merged. It returns nil if there are no routes. It adds the
// routes that it read to p.bound, and the objects of the merged ones to p.from.
func (p *planner) extendedRoutes(host mesh.Hostname, port uint32) *routes {
	for _, private := range []bool{true, false} {
		var lists []*boundRoutes
		for vs := range p.scope.rulesFor(host) {
			if x := vs.Config.Extension; x == nil || !x.Precedes || vs.IsPrivate() != private {
				continue
			}
			in, from := p.routesInput(vs, routesInput{port: port})
			r := p.g.bound.Get(in)
			p.bound = append(p.bound, r)
			if r.isEmpty() {
				continue
			}
			lists = append(lists, r)
			p.from = append(p.from, from...)
		}
		if len(lists) > 0 {
			return p.g.merged.Get(memoList(lists))
		}
	}
	return nil
}
