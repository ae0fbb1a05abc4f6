package config

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshpilot/meshpilot/internal/model/code"
)

// The limits for the body of a direct response, in bytes. The body is sent to every proxy with its
// routes.
const (
	largeBody = 100 << 10
	maxBody   = 1 << 20
)

// checkHTTPRoute adds Errors for invalid fields of an HTTP route, and Warnings for fields without
// effect and deprecated ones. inDelegate is set for a VirtualService without hosts.
func (r *report) checkHTTPRoute(at path, route *networking.HTTPRoute, inDelegate bool) {
	r.checkHTTPAction(at, route, inDelegate)
	for i, match := range route.GetMatch() {
		r.checkHTTPMatch(at.Child("match").Index(i), match)
	}
	r.checkHTTPDestinations(at.Child("route"), route.GetRoute())
	if redirect := route.GetRedirect(); redirect != nil {
		r.checkRedirect(at.Child("redirect"), redirect)
	}
	if response := route.GetDirectResponse(); response != nil {
		r.checkDirectResponse(at.Child("directResponse"), response)
	}
	if rewrite := route.GetRewrite(); rewrite != nil {
		r.checkRewrite(at.Child("rewrite"), rewrite)
	}
	r.checkDuration(at.Child("timeout"), route.GetTimeout())
	r.checkRetries(at.Child("retries"), route)
	r.checkFaultInjection(at.Child("fault"), route.GetFault())
	r.checkMirrors(at, route)
	r.checkCORS(at.Child("corsPolicy"), route.GetCorsPolicy())
	r.checkHeaders(at.Child("headers"), route.GetHeaders())
}

// checkHTTPAction adds an Error unless a route has exactly one action: route, redirect,
// directResponse or delegate. A directResponse beside a delegate is no action but inherited by the
// delegate's routes, as in Istio. An invalid delegate, a delegate in a delegate, and fault or
// rewrite beside the actions redirect or directResponse, are Errors too.
func (r *report) checkHTTPAction(at path, route *networking.HTTPRoute, inDelegate bool) {
	var actions []string
	for _, action := range []struct {
		name  string
		there bool
	}{
		{"route", len(route.GetRoute()) > 0},
		{"redirect", route.GetRedirect() != nil},
		{"directResponse", route.GetDirectResponse() != nil && route.GetDelegate() == nil},
		{"delegate", route.GetDelegate() != nil},
	} {
		if action.there {
			actions = append(actions, action.name)
		}
	}
	switch {
	case len(actions) == 0:
		r.errorf(at, "one of route, redirect, directResponse and delegate is required")
		return
	case len(actions) > 1:
		r.errorf(at, "only one of route, redirect, directResponse and delegate may be set, found %q", actions)
	}
	if d := route.GetDelegate(); d != nil {
		r.checkDelegate(at.Child("delegate"), d)
	}
	if inDelegate && route.GetDelegate() != nil {
		r.errorf(at.Child("delegate"), "a delegate (a VirtualService without hosts) must not delegate further")
	}
	if slices.Contains([]string{"redirect", "directResponse"}, actions[0]) {
		if route.GetFault() != nil {
			r.errorf(at.Child("fault"), "must not be set together with %s", actions[0])
		}
		if route.GetRewrite() != nil {
			r.errorf(at.Child("rewrite"), "must not be set together with %s", actions[0])
		}
	}
}

// checkDelegate adds Errors for an invalid name or namespace of a reference to another
// VirtualService. It does not check whether that exists.
func (r *report) checkDelegate(at path, d *networking.Delegate) {
	r.requireValue(at.Child("name"), d.GetName())
	for _, reason := range validation.IsDNS1123Subdomain(d.GetName()) {
		if d.GetName() != "" {
			r.errorf(at.Child("name"), "%q: %s", d.GetName(), withoutExample(reason))
		}
	}
	if ns := d.GetNamespace(); ns != "" && len(validation.IsDNS1123Label(ns)) > 0 {
		r.errorf(at.Child("namespace"), "%q is not a namespace's name", ns)
	}
}

// checkRedirect adds Errors for an invalid redirect: without any change of the URL, with both uri
// and prefixRewrite, a scheme other than "http" and "https", an invalid port, or a status that
// Envoy does not support. Status 0 is the default.
func (r *report) checkRedirect(at path, redirect *networking.HTTPRedirect) {
	if redirect.GetUri() == "" && redirect.GetPrefixRewrite() == "" && redirect.GetAuthority() == "" &&
		redirect.GetScheme() == "" && redirect.GetRedirectPort() == nil {
		r.errorf(at, "one of uri, prefixRewrite, authority, scheme, port and derivePort is required")
	}
	if redirect.GetUri() != "" && redirect.GetPrefixRewrite() != "" {
		r.errorf(at.Child("prefixRewrite"), "must not be set together with uri")
	}
	if s := redirect.GetScheme(); s != "" && s != "http" && s != "https" {
		r.errorf(at.Child("scheme"), "%q must be \"http\" or \"https\"", s)
	}
	if port, ok := redirect.GetRedirectPort().(*networking.HTTPRedirect_Port); ok {
		r.checkPortNumber(at.Child("port"), port.Port)
	}
	// The codes of Envoy's RedirectAction.
	if code := redirect.GetRedirectCode(); !slices.Contains([]uint32{0, 301, 302, 303, 307, 308}, code) {
		r.errorf(at.Child("redirectCode"), "%d must be one of 301, 302, 303, 307 and 308", code)
	}
}

// checkDirectResponse adds Errors for an invalid status or a body over maxBody. A body over
// largeBody, or without content, is a Warning.
func (r *report) checkDirectResponse(at path, response *networking.HTTPDirectResponse) {
	r.checkHTTPStatus(at.Child("status"), int64(response.GetStatus()))
	at = at.Child("body")
	if response.GetBody() != nil && response.GetBody().GetSpecifier() == nil {
		r.warnf(at, "has neither string nor bytes, the answer has no body")
	}
	switch size := len(response.GetBody().GetString_()) + len(response.GetBody().GetBytes()); {
	case size > maxBody:
		r.errorf(at, "has %d bytes, at most %d are allowed", size, maxBody)
	case size > largeBody:
		r.warnf(at, "has %d bytes, which are sent to every proxy with its routes", size)
	}
}

// checkRewrite adds Errors for a rewrite without any change, for uri beside uriRegexRewrite, and
// for an invalid regular expression. The replacement must not be empty and must fit the groups of
// the regular expression.
func (r *report) checkRewrite(at path, rewrite *networking.HTTPRewrite) {
	regex := rewrite.GetUriRegexRewrite()
	if rewrite.GetUri() == "" && rewrite.GetAuthority() == "" && regex == nil {
		r.errorf(at, "one of uri, uriRegexRewrite and authority is required")
	}
	if regex == nil {
		return
	}
	at = at.Child("uriRegexRewrite")
	if rewrite.GetUri() != "" {
		r.errorf(at, "must not be set together with uri")
	}
	groups, fault := regexpFault(regex.GetMatch())
	r.addFault(at.Child("match"), fault)
	r.requireValue(at.Child("rewrite"), regex.GetRewrite())
	if fault == "" {
		r.addFault(at.Child("rewrite"), rewriteFault(regex.GetRewrite(), groups))
	}
}

// checkHTTPDestinations adds Errors for missing or invalid destinations, and invalid headers and
// weights of a route, which may have none. Some names of headers are Warnings (checkHeaders).
func (r *report) checkHTTPDestinations(at path, routes []*networking.HTTPRouteDestination) {
	weights := make([]int32, len(routes))
	for i, route := range routes {
		r.checkDestination(at.Index(i).Child("destination"), route.GetDestination())
		r.checkHeaders(at.Index(i).Child("headers"), route.GetHeaders())
		weights[i] = route.GetWeight()
	}
	r.checkWeights(at, weights)
}

// warnUnreachableHTTP adds a Warning for each match that an earlier route covers (matchCovers), and
// for each route after the first one without a match. Matches of the same route are not compared. A
// route with a delegate hides no later route, because it handles only the requests that its
// delegate matches.
func (r *report) warnUnreachableHTTP(at path, routes []*networking.HTTPRoute) {
	earlier := earlierMatches{equal: map[string]int{}, byPath: map[string][]matchOfRoute{}}
	catchAll := -1
	for i, route := range routes {
		if catchAll >= 0 {
			r.warnCode(code.VirtualServiceUnreachableRule, at.Index(i),
				"is never reached: http[%d] has no match and handles every request", catchAll)
			continue
		}
		for j, match := range route.GetMatch() {
			key := matchKey(match)
			switch first, same := earlier.findCovering(key, match); {
			case first >= 0 && first != i && same:
				r.warnCode(code.VirtualServiceIneffectiveMatch, at.Index(i).Child("match").Index(j),
					"is never reached: http[%d] has the same match", first)
			case first >= 0 && first != i:
				r.warnCode(
					code.VirtualServiceIneffectiveMatch,
					at.Index(i).Child("match").Index(j),
					"is never reached: http[%d] handles every request that it matches",
					first,
				)
			case route.GetDelegate() == nil:
				earlier.addMatch(key, match, i)
			}
		}
		if len(route.GetMatch()) == 0 && route.GetDelegate() == nil {
			catchAll = i
		}
	}
}

// matchKey returns an encoding of match without its name and statPrefix. Two matches with equal
// keys match the same requests.
func matchKey(match *networking.HTTPMatchRequest) string {
	named, prefix := match.GetName(), match.GetStatPrefix()
	body, err := appendCanonically(nil, match)
	if err != nil { // unreachable: the match was decoded from JSON
		return fmt.Sprintf("%p", match)
	}
	if named == "" && prefix == "" {
		return string(body)
	}
	bare := match.DeepCopy()
	bare.Name, bare.StatPrefix = "", "" // names do not select requests
	return matchKey(bare)
}
