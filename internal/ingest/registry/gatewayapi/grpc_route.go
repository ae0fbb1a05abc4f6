package gatewayapi

import (
	"fmt"
	"regexp"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"
)

// readGRPCRoute adds the routes of a GRPCRoute's rules to r. A rule without matches matches all
// requests. Requests that cannot be forwarded are answered with 503, which gRPC clients see as
// UNAVAILABLE.
func (r *routeReader) readGRPCRoute(spec *gatewayv1.GRPCRouteSpec) {
	for i, rule := range spec.Rules {
		x := httpRule{
			field: fmt.Sprintf("spec.rules[%d]", i), name: ruleName(r.object, i, rule.Name), index: i,
			session: rule.SessionPersistence, failure: 503,
		}
		x.filters = r.convertFilters(x.field, httpFilters(rule.Filters))
		for _, b := range rule.BackendRefs {
			x.backends = append(
				x.backends,
				gatewayv1.HTTPBackendRef{BackendRef: b.BackendRef, Filters: httpFilters(b.Filters)},
			)
		}
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []gatewayv1.GRPCRouteMatch{{}}
		}
		for j, m := range matches {
			converted, v := convertGRPCMatch(fmt.Sprintf("%s.matches[%d]", x.field, j), m)
			x.verdict.worse(v)
			x.matches = append(x.matches, converted)
		}
		r.addRule(x)
	}
}

// httpFilters returns filters of a GRPCRoute as the equivalent filters of an HTTPRoute.
func httpFilters(list []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	var out []gatewayv1.HTTPRouteFilter
	for _, f := range list {
		out = append(out, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(f.Type), RequestHeaderModifier: f.RequestHeaderModifier,
			ResponseHeaderModifier: f.ResponseHeaderModifier, RequestMirror: f.RequestMirror,
			ExtensionRef: f.ExtensionRef,
		})
	}
	return out
}

// convertGRPCMatch converts a match of a GRPCRoute, whose path is "/SERVICE/METHOD". More
// characters in the service make it more specific, then more in the method (precedence). Of several
// entries for a header, the first is used. The verdict fails for unsupported types, and for
// expressions and names that Envoy would refuse; field is the path of the match.
func convertGRPCMatch(field string, m gatewayv1.GRPCRouteMatch) (httpMatch, verdict) {
	out := httpMatch{match: new(networking.HTTPMatchRequest), rank: precedence{path: prefixPath}}
	v := out.setMethod(field+".method", m.Method)
	for i, h := range m.Headers {
		at := fmt.Sprintf("%s.headers[%d]", field, i)
		key := strings.ToLower(string(h.Name))
		if out.match.Headers[key] != nil {
			continue
		}
		v.worse(checkHeaderName(at, string(h.Name)))
		s, fault := stringMatch(at, (*string)(h.Type), h.Value)
		v.worse(fault)
		if out.match.Headers == nil {
			out.match.Headers = map[string]*networking.StringMatch{}
		}
		out.match.Headers[key] = s
	}
	out.rank.headers = len(out.match.Headers)
	return out, v
}

// setMethod sets the match of the path, and its rank, from a service and a method, by default
// exactly. If only one of them is set, the other may be any. A nil match, or one with neither,
// matches all. The verdict fails for an unsupported type, or an invalid expression of type
// RegularExpression.
func (m *httpMatch) setMethod(field string, in *gatewayv1.GRPCMethodMatch) verdict {
	service, method, exact := "", "", true
	if in != nil {
		if in.Service != nil {
			service = *in.Service
		}
		if in.Method != nil {
			method = *in.Method
		}
		exact = in.Type == nil || *in.Type == gatewayv1.GRPCMethodMatchExact
		if !exact && *in.Type != gatewayv1.GRPCMethodMatchRegularExpression {
			return unsupported("%s.type: %q is not supported", field, *in.Type)
		}
	}
	m.rank.length, m.rank.second = len(service), len(method)
	switch {
	case service == "" && method == "":
		m.match.Uri = &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: "/"}}
		return verdict{}
	case exact && service != "" && method != "":
		m.rank.path = exactPath
		m.match.Uri = exactly("/" + service + "/" + method)
		return verdict{}
	case exact && method == "":
		m.rank.path = servicePath
		m.match.Uri = &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: "/" + service + "/"}}
		return verdict{}
	case exact:
		method = regexp.QuoteMeta(method)
	}
	if service == "" {
		service = "[^/]+"
	}
	if method == "" {
		method = "[^/]+"
	}
	m.rank.path = regexPath
	text := "/(" + service + ")/(" + method + ")"
	m.match.Uri = expression(text)
	return checkExpression(field, text)
}
