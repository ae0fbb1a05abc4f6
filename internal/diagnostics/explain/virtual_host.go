package explain

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// routed is the result of a route lookup.
type routed struct {
	config *routev3.RouteConfiguration
	host   *routev3.VirtualHost // nil if none matches
	route  *routev3.Route       // nil if none matches
	// matched is the part of the path that rewrites replace.
	matched string
	from    []config.Key
}

// lookupRoute looks up the virtual host and the route of the request, stores them in x.routed and
// adds steps. It returns endings for a redirect to TLS and for unsupported features. Without a
// match it returns nil with no route in x.routed, and the router answers 404.
func (x *exchange) lookupRoute(d decoded[*routev3.RouteConfiguration]) []Ending {
	c := d.message
	x.routed = routed{config: c, from: d.from}
	if c.GetVhds() != nil {
		return x.endUnsupported(c.GetName(), "VHDS is not supported")
	}
	if c.GetVhostHeader() != "" {
		return x.endUnsupported(
			c.GetName(),
			"virtual host selection by header %s (vhost_header) is not supported",
			c.GetVhostHeader(),
		)
	}
	host := strings.ToLower(x.request.Authority)
	if c.GetIgnorePortInHostMatching() {
		host = withoutPort(host)
	}
	vh, domain := virtualHost(c, host)
	if vh == nil {
		x.addStep(Step{
			Stage:    StageVirtualHost,
			Resource: c.GetName(),
			Decided:  fmt.Sprintf("no virtual host matches host %s, so the response is 404", host),
			Missed:   similarDomains(c, host),
		})
		return nil
	}
	x.routed.host = vh
	x.addStep(Step{
		Stage: StageVirtualHost, Resource: vh.GetName(), Matched: fmt.Sprintf("host %s by domain %s", host, domain),
		Decided: "virtual host matched", By: x.ownersOf(vh.GetName(), d.from),
	})
	if vh.GetRequireTls() == routev3.VirtualHost_ALL && x.request.Scheme != "https" {
		return x.toTLS(vh)
	}
	if vh.GetRequireTls() == routev3.VirtualHost_EXTERNAL_ONLY {
		return x.endUnsupported(vh.GetName(), "require_tls EXTERNAL_ONLY is not supported")
	}
	if m := vh.GetMatcher(); m != nil {
		return x.matchVirtualHost(m)
	}
	return x.firstRoute(vh)
}

// toTLS answers 301 with the same URL and the scheme https, before the route lookup, and adds a
// step. The caller has checked that the request has no TLS and the virtual host requires it
// (VirtualHost.require_tls).
func (x *exchange) toTLS(vh *routev3.VirtualHost) []Ending {
	location := "https://" + x.request.Authority + x.request.Path
	x.addStep(
		Step{
			Stage:    StageVirtualHost,
			Resource: vh.GetName(),
			Matched:  "no TLS",
			Decided:  "redirects the request to " + location,
			By:       x.fewObjects(x.routed.from),
		},
	)
	return []Ending{
		{
			Share:  1,
			Kind:   Answered,
			Status: http.StatusMovedPermanently,
			Reason: "TLS is required",
			Header: []Header{{"location", location}},
		},
	}
}

// firstRoute selects the first route of a virtual host that matches, stores it in x.routed and
// adds a step, which also names earlier routes for the path whose other conditions failed. If
// no route matches, the step names the routes that it tried. The result is nil in both cases.
// If it meets an unsupported matcher, or the first match is for a fraction of the requests, it
// leaves x.routed as it was and returns an ending for something unsupported (endUnsupported).
func (x *exchange) firstRoute(vh *routev3.VirtualHost) []Ending {
	var missed, near []string
	for i, r := range vh.GetRoutes() {
		ok, matched, why, err := x.matchesRoute(r.GetMatch())
		if err != nil {
			return x.endUnsupported(routeName(r, i), "%v", err)
		}
		if !ok {
			missed = append(missed, x.missedRoute(r, i, why))
			if x.pathOnly(r.GetMatch()) && len(near) < maxMissedRoutes {
				near = append(near, missed[len(missed)-1])
			}
			continue
		}
		if share := routeFraction(r.GetMatch()); share < 1 {
			return x.endUnsupported(routeName(r, i), "runtime_fraction of %s is not supported", formatPercent(share))
		}
		x.routed.route, x.routed.matched = r, matched
		x.addStep(
			Step{
				Stage:    StageRoute,
				Resource: routeName(r, i),
				Matched:  why,
				Decided:  fmt.Sprintf("route matched, %s of %d", ordinal(i+1), len(vh.GetRoutes())),
				By:       x.routeObjects(r),
				Missed:   near,
			},
		)
		return nil
	}
	if more := len(missed) - maxMissedRoutes; more > 0 {
		missed = append(missed[:maxMissedRoutes], fmt.Sprintf("%d more routes", more))
	}
	x.addStep(Step{
		Stage:    StageRoute,
		Resource: vh.GetName(),
		Decided:  fmt.Sprintf("none of its %d routes matches, so the response is 404", len(vh.GetRoutes())),
		Missed:   missed,
	})
	return nil
}

// maxMissedRoutes limits the number of routes that a step names as missed.
const maxMissedRoutes = 5

// missedRoute describes a route that does not match, with its source objects and the condition that
// failed: "VirtualService/shop/web spec.http[0]: path begins with /api".
func (x *exchange) missedRoute(r *routev3.Route, i int, condition string) string {
	var names []string
	for _, o := range x.routeObjects(r) {
		names = append(names, o.String())
	}
	if len(names) == 0 {
		names = []string{"route " + routeName(r, i)}
	}
	return strings.Join(names, ", ") + ": " + condition
}

// similarDomains returns texts for up to maxMissedRoutes domains of virtual hosts that begin with
// the first label of a host, sorted. It ignores ports.
func similarDomains(c *routev3.RouteConfiguration, host string) []string {
	label, _, _ := strings.Cut(withoutPort(host), ".")
	var list []string
	for _, vh := range c.GetVirtualHosts() {
		for _, d := range vh.GetDomains() {
			first, _, _ := strings.Cut(withoutPort(d), ".")
			if first != "*" && strings.EqualFold(first, label) {
				list = append(list, "domain "+d+" of virtual host "+vh.GetName())
			}
		}
	}
	slices.Sort(list)
	return list[:min(len(list), maxMissedRoutes)]
}

// routeObjects returns the objects that a route is generated from, or else the services of the
// virtual host.
func (x *exchange) routeObjects(r *routev3.Route) []Object {
	if list := x.routeOrigins(r); list != nil {
		return list
	}
	return x.ownersOf(x.routed.host.GetName(), x.routed.from)
}

// routeName returns the name of a route, or "#INDEX" if it has none.
func routeName(r *routev3.Route, i int) string {
	if r.GetName() == "" {
		return fmt.Sprintf("#%d", i)
	}
	return r.GetName()
}

// ordinal returns "1st", "2nd", "3rd", "4th", "11th", "21st" and so on. n must not be negative.
func ordinal(n int) string {
	suffix := "th"
	switch {
	case n%100 >= 11 && n%100 <= 13:
	case n%10 == 1:
		suffix = "st"
	case n%10 == 2:
		suffix = "nd"
	case n%10 == 3:
		suffix = "rd"
	}
	return fmt.Sprint(n, suffix)
}

// virtualHost selects a virtual host: an exact domain, then the longest "*suffix", then the longest
// "prefix*", then "*" (VirtualHost.domains). Of equal ones it is the first. host must be in lower
// case. It also returns the domain that matched, as the virtual host has it. best is nil if none
// matches.
func virtualHost(c *routev3.RouteConfiguration, host string) (best *routev3.VirtualHost, domain string) {
	rank := -1
	for _, vh := range c.GetVirtualHosts() {
		for _, d := range vh.GetDomains() {
			if k := domainRank(strings.ToLower(d), host); k > rank {
				best, domain, rank = vh, d, k
			}
		}
	}
	return best, domain
}

// domainRank ranks a domain that matches a host, where a higher rank is more specific. It returns
// -1 if the domain does not match; case matters. An exact name precedes suffixes ("*.a"), these
// precede prefixes ("a.*"), and "*" is last. Of suffixes or prefixes the longer one ranks higher,
// and their "*" matches at least one character.
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
