package explain

import (
	"regexp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// upstreamRequest returns the request that an endpoint of the cluster receives. It applies header
// changes first, and then rewrites the host and the path. The host of the weighted cluster
// overrides the route's. It adds steps for what changes.
func (x *exchange) upstreamRequest(c choice, a *routev3.RouteAction) *Request {
	r := x.request.clone()
	for _, changes := range x.requestChanges(c.weight) {
		r.applyChanges(changes)
	}
	host, path := r.Authority, r.Path
	if literal := c.weight.GetHostRewriteLiteral(); literal != "" {
		r.Authority = literal
	} else {
		x.rewriteHost(r, a)
	}
	x.rewritePath(r, a)
	var parts []string
	if r.Authority != host {
		parts = append(parts, "host becomes "+r.Authority)
	}
	if r.Path != path {
		parts = append(parts, "path becomes "+r.Path)
	}
	if len(parts) > 0 {
		x.addStep(
			Step{
				Stage:    StageRewrite,
				Resource: c.cluster,
				Decided:  strings.Join(parts, ", "),
				By:       x.routeObjects(x.routed.route),
			},
		)
	}
	return r
}

// rewriteHost sets the authority of r as the route action demands, by default not at all. A rewrite
// to the endpoint's hostname only adds a step, because it is not supported. A header that the
// request lacks changes nothing; a regular expression is applied to the path.
func (x *exchange) rewriteHost(r *Request, a *routev3.RouteAction) {
	switch h := a.GetHostRewriteSpecifier().(type) {
	case *routev3.RouteAction_HostRewriteLiteral:
		r.Authority = h.HostRewriteLiteral
	case *routev3.RouteAction_HostRewriteHeader:
		if v, ok := r.headerValue(h.HostRewriteHeader); ok {
			r.Authority = v
		}
	case *routev3.RouteAction_HostRewritePathRegex:
		path, _ := r.splitPath()
		r.Authority = substituteRegex(h.HostRewritePathRegex, path)
	case *routev3.RouteAction_AutoHostRewrite:
		if h.AutoHostRewrite.GetValue() {
			x.addNote(StageUnsupported, "", "host rewriting to the endpoint's hostname is not supported")
		}
	}
}

// rewritePath sets the path of r as the route action demands, by default not at all, and keeps the
// query. Rewrites by an extension or a format string only add a step, because they are not
// supported.
func (x *exchange) rewritePath(r *Request, a *routev3.RouteAction) {
	path, query, hasQuery := strings.Cut(r.Path, "?")
	switch {
	case a.GetPrefixRewrite() != "":
		path = a.GetPrefixRewrite() + strings.TrimPrefix(path, x.routed.matched)
	case a.GetRegexRewrite() != nil:
		path = substituteRegex(a.GetRegexRewrite(), path)
	case a.GetPathRewritePolicy() != nil:
		x.addNote(StageUnsupported, "", "path rewriting by an extension is not supported")
	case a.GetPathRewrite() != "":
		x.addNote(StageUnsupported, "", "path rewriting by a format string is not supported")
	}
	r.Path = path
	if hasQuery {
		r.Path += "?" + query
	}
}

// substituteRegex replaces every match of a regular expression. Substitutions refer to groups in
// RE2 syntax: \1. It returns text unchanged if the expression is invalid.
func substituteRegex(s *matcherv3.RegexMatchAndSubstitute, text string) string {
	re, err := regexp.Compile(s.GetPattern().GetRegex())
	if err != nil {
		return text
	}
	return re.ReplaceAllString(text, goTemplate(s.GetSubstitution()))
}

// goTemplate converts an RE2 substitution to Go's syntax: `\1` becomes "${1}", and a dollar sign
// becomes "$$". A backslash before any other character is dropped; one at the end is kept.
func goTemplate(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$':
			b.WriteString("$$")
		case s[i] == '\\' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9':
			b.WriteString("${" + s[i+1:i+2] + "}")
			i++
		case s[i] == '\\' && i+1 < len(s):
			b.WriteByte(s[i+1])
			i++
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
