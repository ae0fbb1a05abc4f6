package authorization

import (
	"strconv"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

func destinationIP(_ scope, value string) *rbacv3.Permission {
	r, ok := cidr(value)
	if !ok {
		return permissions.nothing()
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationIp{DestinationIp: r}}
}

// destinationPort is the workload's own port.
func destinationPort(_ scope, value string) *rbacv3.Permission {
	n, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return permissions.nothing()
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationPort{DestinationPort: uint32(n)}}
}

func serverName(_ scope, value string) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_RequestedServerName{RequestedServerName: pattern(value)}}
}

func hostIs(_ scope, value string) *rbacv3.Permission { return header(":authority", host(value)) }

// methodIs ignores the case of letters: over HTTP/2 a "get" reaches servers that take it for a GET.
func methodIs(_ scope, value string) *rbacv3.Permission {
	return header(":method", anyCase(pattern(value)))
}

// pathIs matches the path without query and fragment, made canonical before (MeshConfig.pathNormalization). "{*}" is a segment,
// "{**}" any number of them. Envoy merges a path of slashes only into "//", which "/" therefore matches too.
func pathIs(s scope, value string) *rbacv3.Permission {
	m := pattern(value)
	switch {
	case strings.ContainsAny(value, "{}"):
		m = regex(template(value))
	case value == "/" && s.mergesSlashes:
		m = regex("//?")
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
		Rule: &matcherv3.PathMatcher_Path{Path: m},
	}}}
}

// template writes the API's operators as a regular expression. Envoy has templates of its own (uri_template), but their wildcards
// leave characters out that paths may have, such as brackets: a DENY would be got round by one of those.
func template(value string) string {
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
		default: // validation lets none through
			out.WriteString(quoted("{"))
			rest = after
		}
	}
	return out.String()
}

func header(name string, m *matcherv3.StringMatcher) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: &routev3.HeaderMatcher{
		Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m},
	}}}
}

// metadataOf matches what a filter of the user's own has said of a call: text, or "[text]" for one of a list.
func metadataOf(filter string) func(scope, string) *rbacv3.Permission {
	return func(s scope, value string) *rbacv3.Permission {
		m := &matcherv3.ValueMatcher{}
		if inner, ok := strings.CutPrefix(value, "["); ok && strings.HasSuffix(inner, "]") {
			m.MatchPattern = &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{MatchPattern: &matcherv3.ListMatcher_OneOf{
				OneOf: &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: pattern(strings.TrimSuffix(inner, "]"))}},
			}}}
		} else {
			m.MatchPattern = &matcherv3.ValueMatcher_StringMatch{StringMatch: pattern(value)}
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_SourcedMetadata{SourcedMetadata: &rbacv3.SourcedMetadata{
			MetadataMatcher: &matcherv3.MetadataMatcher{Filter: filter, Path: []*matcherv3.MetadataMatcher_PathSegment{segment(s.name)}, Value: m},
		}}}
	}
}
