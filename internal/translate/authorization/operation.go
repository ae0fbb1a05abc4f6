package authorization

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	uritemplatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
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
// "{**}" any number of them.
func pathIs(_ scope, value string) *rbacv3.Permission {
	if strings.ContainsAny(value, "{}") {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_UriTemplate{UriTemplate: &corev3.TypedExtensionConfig{
			Name:        "uri-template",
			TypedConfig: packed(&uritemplatev3.UriTemplateMatchConfig{PathTemplate: template(value)}),
		}}}
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
		Rule: &matcherv3.PathMatcher_Path{Path: pattern(value)},
	}}}
}

// template writes the API's operators as Envoy's.
func template(value string) string {
	return strings.NewReplacer("{**}", "**", "{*}", "*").Replace(value)
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
