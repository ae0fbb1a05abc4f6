package explain

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// DescribeMatch returns the conditions of a RouteMatch as one line of text, in the words of the
// steps of a Path. Conditions on client certificates, dynamic metadata and filter state are named
// only. A fraction is its default value; one of all requests is no condition.
func DescribeMatch(m *routev3.RouteMatch) string {
	_, _, path, err := pathMatches(m, new(Request), "")
	if err != nil {
		path = err.Error()
	}
	parts := []string{path}
	if m.GetGrpc() != nil {
		parts = append(parts, "request is gRPC")
	}
	for _, h := range m.GetHeaders() {
		parts = append(parts, headerText(h))
	}
	for _, q := range m.GetQueryParameters() {
		parts = append(parts, queryText(q))
	}
	for _, c := range m.GetCookies() {
		parts = append(parts, cookieText(c))
	}
	if m.GetTlsContext() != nil {
		parts = append(parts, "client certificate")
	}
	if len(m.GetDynamicMetadata()) > 0 {
		parts = append(parts, "dynamic metadata")
	}
	if len(m.GetFilterState()) > 0 {
		parts = append(parts, "filter state")
	}
	if share := routeFraction(m); share < 1 {
		parts = append(parts, formatPercent(share)+" of requests")
	}
	return strings.Join(parts, ", ")
}

// DescribeAction returns the action of a route as one line of text. It is its clusters with their
// weights, the status name of its redirect, or the status of its direct response, and for all
// others "no action".
func DescribeAction(r *routev3.Route) string {
	switch a := r.GetAction().(type) {
	case *routev3.Route_Redirect:
		return fmt.Sprintf("redirect, %s", strings.ToLower(a.Redirect.GetResponseCode().String()))
	case *routev3.Route_DirectResponse:
		return fmt.Sprintf("direct response %d", a.DirectResponse.GetStatus())
	case *routev3.Route_Route:
		return describeClusters(a.Route)
	default:
		return "no action"
	}
}

// describeClusters returns a text for the clusters that a route action may select: the cluster,
// several with their weights as "WEIGHT × NAME", or the header that names it. Other actions get a
// fixed text.
func describeClusters(a *routev3.RouteAction) string {
	switch s := a.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		return s.Cluster
	case *routev3.RouteAction_WeightedClusters:
		var parts []string
		for _, c := range s.WeightedClusters.GetClusters() {
			parts = append(parts, fmt.Sprintf("%d × %s", c.GetWeight().GetValue(), c.GetName()))
		}
		return strings.Join(parts, ", ")
	case *routev3.RouteAction_ClusterHeader:
		return "cluster named by header " + s.ClusterHeader
	default:
		return "cluster chosen by Envoy"
	}
}
