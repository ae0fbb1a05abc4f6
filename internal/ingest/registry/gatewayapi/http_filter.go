package gatewayapi

import (
	"fmt"
	"regexp"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// filters are the converted filters of a rule, apart from what depends on the match.
type filters struct {
	headers  *networking.Headers
	redirect *gatewayv1.HTTPRequestRedirectFilter
	rewrite  *gatewayv1.HTTPURLRewriteFilter
	mirrors  []*networking.HTTPMirrorPolicy
	cors     *config.CORSPolicy
	// authorizer is the filter ExternalAuth. If its backend cannot be used, blocked is set: all
	// requests are answered with an error.
	authorizer *config.Authorizer
	blocked    bool
	// supported is the verdict about the filters, and resolved that about their references.
	supported, resolved verdict
}

// convertFilters returns the converted filters of a rule or backend; field is its path. It fails
// supported of the result for an unsupported filter, a repeated one other than a mirror, and a
// redirect together with a rewrite. The other filters are converted nevertheless. Of a repeated
// filter the last is used.
func (r *routeReader) convertFilters(field string, list []gatewayv1.HTTPRouteFilter) filters {
	out := filters{}
	seen := map[gatewayv1.HTTPRouteFilterType]bool{}
	for i, f := range list {
		at := fmt.Sprintf("%s.filters[%d]", field, i)
		if seen[f.Type] && f.Type != gatewayv1.HTTPRouteFilterRequestMirror {
			out.supported.worse(unsupported("%s: filter %s is repeated", at, f.Type))
		}
		seen[f.Type] = true
		r.addFilter(&out, at, f)
	}
	if out.redirect != nil && out.rewrite != nil {
		out.supported.worse(verdict{
			string(gatewayv1.RouteReasonIncompatibleFilters),
			field + ".filters: RequestRedirect and URLRewrite exclude each other",
		})
	}
	return out
}

// addFilter adds one filter to out; at is its path. A later filter of the same type replaces the
// earlier one, except mirrors. A filter that is unknown, lacks its configuration or has text that
// Envoy would refuse (filterTextFault) fails out.supported, an ExtensionRef also out.resolved.
func (r *routeReader) addFilter(out *filters, at string, f gatewayv1.HTTPRouteFilter) {
	out.supported.worse(filterTextFault(at, f))
	switch {
	case f.Type == gatewayv1.HTTPRouteFilterRequestHeaderModifier && f.RequestHeaderModifier != nil:
		out.headers = withHeaders(out.headers)
		out.headers.Request = headerOperations(f.RequestHeaderModifier)
	case f.Type == gatewayv1.HTTPRouteFilterResponseHeaderModifier && f.ResponseHeaderModifier != nil:
		out.headers = withHeaders(out.headers)
		out.headers.Response = headerOperations(f.ResponseHeaderModifier)
	case f.Type == gatewayv1.HTTPRouteFilterRequestRedirect && f.RequestRedirect != nil:
		out.redirect = f.RequestRedirect
	case f.Type == gatewayv1.HTTPRouteFilterURLRewrite && f.URLRewrite != nil:
		out.rewrite = f.URLRewrite
	case f.Type == gatewayv1.HTTPRouteFilterRequestMirror && f.RequestMirror != nil:
		r.addMirror(out, at+".requestMirror", f.RequestMirror)
	case f.Type == gatewayv1.HTTPRouteFilterCORS && f.CORS != nil:
		out.cors = newCORS(f.CORS)
	case f.Type == gatewayv1.HTTPRouteFilterExternalAuth && f.ExternalAuth != nil:
		r.addAuthorizer(out, at+".externalAuth", f.ExternalAuth)
	case f.Type == gatewayv1.HTTPRouteFilterExtensionRef && f.ExtensionRef != nil:
		out.resolved.worse(verdict{
			string(gatewayv1.RouteReasonInvalidKind),
			fmt.Sprintf("%s.extensionRef: kind %q of group %q is not a filter", at,
				f.ExtensionRef.Kind, f.ExtensionRef.Group),
		})
		out.supported.worse(
			unsupported(
				"%s.type: filter %s (%s %q) is not supported",
				at,
				f.Type,
				f.ExtensionRef.Kind,
				f.ExtensionRef.Name,
			),
		)
	default:
		out.supported.worse(unsupported("%s: filter %q is not supported", at, f.Type))
	}
}

// filterTextFault returns a failed verdict if a header modifier, redirect or rewrite has a text
// with which Envoy would reject the whole RouteConfiguration: a name or value of a header that is
// invalid (config.HeaderNameFault, config.HeaderValueFault), or a control character, other than a
// tab, in a path or hostname. at is the path of the filter.
func filterTextFault(at string, f gatewayv1.HTTPRouteFilter) (v verdict) {
	add := func(field, fault string) {
		if fault != "" {
			v.worse(unsupported("%s.%s: %s", at, field, fault))
		}
	}
	check := func(field, text string) {
		if config.HasControlCharacter(text) {
			add(field, fmt.Sprintf("%q has a control character", text))
		}
	}
	headers := func(field string, h *gatewayv1.HTTPHeaderFilter) {
		if h == nil {
			return
		}
		values := func(field string, list []gatewayv1.HTTPHeader) {
			for i, x := range list {
				add(fmt.Sprintf("%s[%d].name", field, i), config.HeaderNameFault(string(x.Name)))
				add(fmt.Sprintf("%s[%d].value", field, i), config.HeaderValueFault(literal(x.Value)))
			}
		}
		values(field+".set", h.Set)
		values(field+".add", h.Add)
		for i, name := range h.Remove {
			add(fmt.Sprintf("%s.remove[%d]", field, i), config.HeaderNameFault(name))
		}
	}
	path := func(field string, p *gatewayv1.HTTPPathModifier) {
		if p != nil && p.ReplaceFullPath != nil {
			check(field+".path.replaceFullPath", *p.ReplaceFullPath)
		}
		if p != nil && p.ReplacePrefixMatch != nil {
			check(field+".path.replacePrefixMatch", *p.ReplacePrefixMatch)
		}
	}
	headers("requestHeaderModifier", f.RequestHeaderModifier)
	headers("responseHeaderModifier", f.ResponseHeaderModifier)
	host := func(field string, h *gatewayv1.PreciseHostname) {
		if h != nil {
			check(field+".hostname", string(*h))
		}
	}
	if r := f.RequestRedirect; r != nil {
		path("requestRedirect", r.Path)
		host("requestRedirect", r.Hostname)
	}
	if r := f.URLRewrite; r != nil {
		path("urlRewrite", r.Path)
		host("urlRewrite", r.Hostname)
	}
	return v
}

// withHeaders returns h, or new empty Headers if h is nil.
func withHeaders(h *networking.Headers) *networking.Headers {
	if h == nil {
		return new(networking.Headers)
	}
	return h
}

// literal escapes a header value, in which Envoy would replace %COMMANDS%.
func literal(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// headerOperations converts a header modifier, with names in lower case and values in which Envoy
// replaces nothing. Of several entries for a name in one list, the first is used. Without entries
// Set and Add are nil.
func headerOperations(f *gatewayv1.HTTPHeaderFilter) *networking.Headers_HeaderOperations {
	convert := func(list []gatewayv1.HTTPHeader) map[string]string {
		if len(list) == 0 {
			return nil
		}
		out := make(map[string]string, len(list))
		for _, h := range list {
			key := strings.ToLower(string(h.Name))
			if _, seen := out[key]; !seen {
				out[key] = literal(h.Value)
			}
		}
		return out
	}
	out := &networking.Headers_HeaderOperations{Set: convert(f.Set), Add: convert(f.Add)}
	for _, name := range f.Remove {
		out.Remove = append(out.Remove, strings.ToLower(name))
	}
	return out
}

// addMirror appends a converted request mirror to out.mirrors. Its share of the requests is the
// percentage, else the fraction, else all. A mirror whose backend cannot be used fails out.resolved
// and is left out, because it does not affect the response.
func (r *routeReader) addMirror(out *filters, at string, m *gatewayv1.HTTPRequestMirrorFilter) {
	to, v := r.backend(at+".backendRef", m.BackendRef)
	out.resolved.worse(v)
	if to == nil {
		return
	}
	share := 100.0
	switch {
	case m.Percent != nil:
		share = float64(*m.Percent)
	case m.Fraction != nil:
		of := int32(100)
		if m.Fraction.Denominator != nil {
			of = max(*m.Fraction.Denominator, 1)
		}
		share = 100 * float64(m.Fraction.Numerator) / float64(of)
	}
	out.mirrors = append(
		out.mirrors,
		&networking.HTTPMirrorPolicy{Destination: to, Percentage: &networking.Percent{Value: share}},
	)
}

// newCORS converts a CORS filter. Credentials are allowed only if AllowCredentials is true. MaxAge
// is copied.
func newCORS(f *gatewayv1.HTTPCORSFilter) *config.CORSPolicy {
	out := &config.CORSPolicy{MaxAge: f.MaxAge, AllowCredentials: f.AllowCredentials != nil && *f.AllowCredentials}
	for _, o := range f.AllowOrigins {
		out.AllowOrigins = append(out.AllowOrigins, string(o))
	}
	for _, m := range f.AllowMethods {
		out.AllowMethods = append(out.AllowMethods, string(m))
	}
	for _, h := range f.AllowHeaders {
		out.AllowHeaders = append(out.AllowHeaders, string(h))
	}
	for _, h := range f.ExposeHeaders {
		out.ExposeHeaders = append(out.ExposeHeaders, string(h))
	}
	return out
}

// setRewrite sets the rewrite of route to for match m, or none if f is nil. The verdict fails if
// the path cannot be rewritten (pathReplacement); the host is rewritten in any case.
func setRewrite(to *networking.HTTPRoute, f *gatewayv1.HTTPURLRewriteFilter, m httpMatch, field string) verdict {
	if f == nil {
		return verdict{}
	}
	to.Rewrite = new(networking.HTTPRewrite)
	if f.Hostname != nil {
		to.Rewrite.Authority = string(*f.Hostname)
	}
	if f.Path == nil {
		return verdict{}
	}
	pattern, replacement, v := pathReplacement(f.Path, m, field)
	if v.ok() {
		to.Rewrite.UriRegexRewrite = &networking.RegexRewrite{Match: pattern, Rewrite: replacement}
	}
	return v
}

// pathReplacement returns the regular expression and substitution for a change of the path of
// requests that match m; backslashes in the replacement are escaped. The verdict fails, with empty
// texts, for a prefix replacement if m is not a prefix, and for modifiers that are unknown or lack
// their value. An empty replacement becomes "/" where needed.
func pathReplacement(
	p *gatewayv1.HTTPPathModifier,
	m httpMatch,
	field string,
) (pattern, replacement string, v verdict) {
	escaped := func(s string) string { return strings.ReplaceAll(s, `\`, `\\`) }
	switch {
	case p.Type == gatewayv1.FullPathHTTPPathModifier && p.ReplaceFullPath != nil:
		return "^.*$", escaped(*p.ReplaceFullPath), verdict{}
	case p.Type == gatewayv1.PrefixMatchHTTPPathModifier && p.ReplacePrefixMatch != nil && m.isPrefix:
		to := escaped(strings.TrimRight(*p.ReplacePrefixMatch, "/"))
		if to == "" || m.prefix == "" {
			return "^" + regexp.QuoteMeta(m.prefix) + "/*(.*)$", to + `/\1`, verdict{}
		}
		return "^" + regexp.QuoteMeta(m.prefix), to, verdict{}
	case p.Type == gatewayv1.PrefixMatchHTTPPathModifier && !m.isPrefix:
		return "", "", unsupported("%s: ReplacePrefixMatch requires that all matches are of type PathPrefix", field)
	default:
		return "", "", unsupported("%s: path modifier %q is not supported", field, p.Type)
	}
}

// setRedirect sets the redirect of route to for match m, with the status 302 by default. It sets a
// new path in the redirect, but the replacement of a prefix in x. Without a port it is the default
// port of the new scheme, or without a scheme the request's port. The verdict fails for unsupported
// changes of the path.
func setRedirect(
	to *networking.HTTPRoute,
	x *config.HTTPExtension,
	f *gatewayv1.HTTPRequestRedirectFilter,
	m httpMatch,
	field string,
) verdict {
	r := &networking.HTTPRedirect{RedirectCode: 302}
	if f.StatusCode != nil {
		r.RedirectCode = uint32(*f.StatusCode) //nolint:gosec // validated by the API
	}
	if f.Hostname != nil {
		r.Authority = string(*f.Hostname)
	}
	switch {
	case f.Port != nil:
		r.RedirectPort = &networking.HTTPRedirect_Port{Port: uint32(*f.Port)} //nolint:gosec // validated by the API
	case f.Scheme != nil:
		r.RedirectPort = &networking.HTTPRedirect_DerivePort{DerivePort: networking.HTTPRedirect_FROM_PROTOCOL_DEFAULT}
	default:
		r.RedirectPort = &networking.HTTPRedirect_DerivePort{DerivePort: networking.HTTPRedirect_FROM_REQUEST_PORT}
	}
	if f.Scheme != nil {
		r.Scheme = *f.Scheme
	}
	to.Redirect = r
	if f.Path == nil {
		return verdict{}
	}
	if f.Path.Type == gatewayv1.FullPathHTTPPathModifier && f.Path.ReplaceFullPath != nil {
		r.Uri = *f.Path.ReplaceFullPath
		return verdict{}
	}
	var v verdict
	x.RedirectPattern, x.RedirectTo, v = pathReplacement(f.Path, m, field)
	return v
}
