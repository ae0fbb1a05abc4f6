package authorization

import (
	"strconv"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// destinationIP matches calls to an address or CIDR range. It matches nothing if value is neither.
func destinationIP(_ scope, value string) *rbacv3.Permission {
	r, ok := parseCIDR(value)
	if !ok {
		return permissions.nothing()
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationIp{DestinationIp: r}}
}

// destinationPort matches the port of the workload, not of the service. It matches nothing if value
// is not a port number.
func destinationPort(_ scope, value string) *rbacv3.Permission {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return permissions.nothing()
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationPort{DestinationPort: uint32(n)}}
}

// serverName matches the SNI of the TLS connection; value is a pattern.
func serverName(_ scope, value string) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_RequestedServerName{RequestedServerName: pattern(value)}}
}

// hostIs matches the host of a request (:authority) by the pattern value (hostMatcher).
func hostIs(_ scope, value string) *rbacv3.Permission {
	return headerMatcher(":authority", hostMatcher(value))
}

// methodIs matches the method of a request; value is a pattern. It ignores case, because over
// HTTP/2 a "get" reaches servers that handle it as GET.
func methodIs(_ scope, value string) *rbacv3.Permission {
	return headerMatcher(":method", ignoreCase(pattern(value)))
}

// pathIs matches the path without query and fragment, after normalization
// (MeshConfig.pathNormalization). value is a pattern, or a template if it contains braces: "{*}" is
// one segment, "{**}" any text. If s.mergesSlashes is set, "/" also matches "//", because Envoy
// does not merge a path of slashes further.
func pathIs(s scope, value string) *rbacv3.Permission {
	m := pattern(value)
	switch {
	case strings.ContainsAny(value, "{}"):
		m = regex(templateExpression(value))
	case value == "/" && s.mergesSlashes:
		m = regex("//?")
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
		Rule: &matcherv3.PathMatcher_Path{Path: m},
	}}}
}

// templateExpression returns the regular expression of a path template: "{*}" matches one segment,
// which is not empty, and "{**}" any text. Other braces are literal; validation refuses them. Envoy
// has templates too (uri_template), but their wildcards exclude characters that paths may contain,
// such as brackets, which would bypass a DENY.
func templateExpression(value string) string {
	var out strings.Builder
	for rest := value; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		out.WriteString(quoted(text))
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "**}"):
			out.WriteString(".*")
			rest = after[len("**}"):]
		case strings.HasPrefix(after, "*}"):
			out.WriteString("[^/]+")
			rest = after[len("*}"):]
		default: // Validation refuses it.
			out.WriteString(quoted("{"))
			rest = after
		}
	}
	return out.String()
}

// headerMatcher matches requests with the header name whose value m matches.
func headerMatcher(name string, m *matcherv3.StringMatcher) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: &routev3.HeaderMatcher{
		Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m},
	}}}
}

// metadataIs returns a matcher of dynamic metadata that the filter has written at the key s.name.
// Its value is a pattern for a string, or "[pattern]" for an element of a list.
func metadataIs(filter string) func(scope, string) *rbacv3.Permission {
	return func(s scope, value string) *rbacv3.Permission {
		m := &matcherv3.ValueMatcher{}
		if inner, ok := strings.CutPrefix(value, "["); ok && strings.HasSuffix(inner, "]") {
			element := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{
				StringMatch: pattern(strings.TrimSuffix(inner, "]")),
			}}
			m.MatchPattern = &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{
				MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: element},
			}}
		} else {
			m.MatchPattern = &matcherv3.ValueMatcher_StringMatch{StringMatch: pattern(value)}
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_SourcedMetadata{SourcedMetadata: &rbacv3.SourcedMetadata{
			MetadataMatcher: &matcherv3.MetadataMatcher{
				Filter: filter,
				Path:   []*matcherv3.MetadataMatcher_PathSegment{pathSegment(s.name)},
				Value:  m,
			},
		}}}
	}
}
