package routetest

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// Answer is what becomes of a request.
type Answer struct {
	// VirtualHost and Route are what took the request, Index the route's place. Nil: nothing did, and Envoy answers 404.
	VirtualHost *routev3.VirtualHost
	Route       *routev3.Route
	Index       int
}

// Route finds what takes a request.
func Route(c *routev3.RouteConfiguration, r Request) (Answer, error) {
	vh := virtualHost(c, r.Authority)
	if vh == nil {
		return Answer{}, nil
	}
	for i, route := range vh.GetRoutes() {
		ok, err := matches(route.GetMatch(), r)
		if err != nil {
			return Answer{}, fmt.Errorf("route %d of %s: %w", i, vh.GetName(), err)
		}
		if ok {
			return Answer{VirtualHost: vh, Route: route, Index: i}, nil
		}
	}
	return Answer{VirtualHost: vh}, nil
}

// virtualHost finds a virtual host by the request's host: an exact domain, then the longest "*suffix", then the longest
// "prefix*", then "*" (VirtualHost.domains).
func virtualHost(c *routev3.RouteConfiguration, authority string) *routev3.VirtualHost {
	host := strings.ToLower(authority)
	if c.GetIgnorePortInHostMatching() {
		host = withoutPort(host)
	}
	var best *routev3.VirtualHost
	rank := -1
	for _, vh := range c.GetVirtualHosts() {
		for _, d := range vh.GetDomains() {
			if k := domainRank(strings.ToLower(d), host); k > rank {
				best, rank = vh, k
			}
		}
	}
	return best
}

// domainRank says how well a domain fits a host: -1 not at all, more is better.
func domainRank(domain, host string) int {
	const kind = 1 << 20 // longer than any host
	suffix, isSuffix := strings.CutPrefix(domain, "*")
	prefix, isPrefix := strings.CutSuffix(domain, "*")
	switch {
	case domain == "*":
		return 0
	case domain == host:
		return 3 * kind
	case isSuffix && len(host) > len(suffix) && strings.HasSuffix(host, suffix):
		return 2*kind + len(suffix)
	case isPrefix && len(host) > len(prefix) && strings.HasPrefix(host, prefix):
		return kind + len(prefix)
	default:
		return -1
	}
}

// withoutPort takes the port off "host:80" and "[::1]:80", and leaves "[::1]".
func withoutPort(host string) string {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || strings.HasSuffix(host, "]") {
		return host
	}
	return host[:colon]
}

// String says in one line what becomes of the request: "virtual host, route: action".
func (a Answer) String() string {
	switch {
	case a.VirtualHost == nil:
		return "404, no virtual host"
	case a.Route == nil:
		return "404, no route in " + a.VirtualHost.GetName()
	}
	name := a.Route.GetName()
	if name == "" {
		name = fmt.Sprintf("#%d", a.Index)
	}
	return a.VirtualHost.GetName() + ", " + name + ": " + action(a.Route)
}

func action(r *routev3.Route) string {
	switch {
	case r.GetRedirect() != nil:
		d := r.GetRedirect()
		var to []string
		for _, p := range []struct{ name, value string }{
			{"scheme", d.GetSchemeRedirect()}, {"host", d.GetHostRedirect()}, {"path", d.GetPathRedirect()}, {"prefix", d.GetPrefixRewrite()},
		} {
			if p.value != "" {
				to = append(to, p.name+" "+p.value)
			}
		}
		if d.GetPortRedirect() != 0 {
			to = append(to, fmt.Sprintf("port %d", d.GetPortRedirect()))
		}
		return d.GetResponseCode().String() + " to " + strings.Join(to, ", ")
	case r.GetDirectResponse() != nil:
		return fmt.Sprintf("%d at once", r.GetDirectResponse().GetStatus())
	case r.GetRoute().GetWeightedClusters() != nil:
		var parts []string
		for _, c := range r.GetRoute().GetWeightedClusters().GetClusters() {
			parts = append(parts, fmt.Sprintf("%d %s", c.GetWeight().GetValue(), c.GetName()))
		}
		return strings.Join(parts, " + ")
	default:
		return r.GetRoute().GetCluster()
	}
}
