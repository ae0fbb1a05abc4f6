package gatewayapi

import (
	"fmt"
	"regexp/syntax"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// httpMatch is a converted match.
type httpMatch struct {
	match *networking.HTTPMatchRequest
	// elements is set if the prefix consists of whole path elements.
	elements bool
	// prefix is the prefix of the path, without a trailing "/"; "" unless it is a prefix match.
	prefix   string
	isPrefix bool
	rank     precedence
}

// exactly returns a match of exactly the text s.
func exactly(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: s}}
}

// expression returns a match of the regular expression s.
func expression(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: s}}
}

// checkExpression returns a failed verdict, which names field, if text is not a valid regular
// expression (RE2).
func checkExpression(field, text string) verdict {
	if _, err := syntax.Parse(text, syntax.Perl); err != nil {
		return unsupported("%s: %v", field, err)
	}
	return verdict{}
}

// unsupported returns a failed verdict with the reason UnsupportedValue and this message.
func unsupported(format string, args ...any) verdict {
	return verdict{string(gatewayv1.RouteReasonUnsupportedValue), fmt.Sprintf(format, args...)}
}

// convertMatch converts a match of an HTTPRoute, with its rank; field is the path of the match. Of
// several entries for a header, in any case of its letters, or for a query parameter, the first is
// used. The verdict is the first failure, for unsupported types, and for expressions and names that
// Envoy would refuse; the match is then incomplete.
func convertMatch(field string, m gatewayv1.HTTPRouteMatch) (httpMatch, verdict) {
	out := httpMatch{match: new(networking.HTTPMatchRequest)}
	v := out.setPath(field, m.Path)
	if m.Method != nil {
		out.match.Method, out.rank.method = exactly(string(*m.Method)), true
	}
	for i, h := range m.Headers {
		at := fmt.Sprintf("%s.headers[%d]", field, i)
		key := strings.ToLower(string(h.Name))
		if out.match.Headers[key] != nil {
			continue // The first entry of a name takes precedence.
		}
		v.worse(checkHeaderName(at, string(h.Name)))
		s, fault := stringMatch(at, (*string)(h.Type), h.Value)
		v.worse(fault)
		if out.match.Headers == nil {
			out.match.Headers = map[string]*networking.StringMatch{}
		}
		out.match.Headers[key] = s
	}
	for i, q := range m.QueryParams {
		at := fmt.Sprintf("%s.queryParams[%d]", field, i)
		if out.match.QueryParams[string(q.Name)] != nil {
			continue
		}
		if q.Name == "" {
			v.worse(unsupported("%s.name: is required", at))
		}
		s, fault := stringMatch(at, (*string)(q.Type), q.Value)
		v.worse(fault)
		if out.match.QueryParams == nil {
			out.match.QueryParams = map[string]*networking.StringMatch{}
		}
		out.match.QueryParams[string(q.Name)] = s
	}
	out.rank.headers, out.rank.query = len(out.match.Headers), len(out.match.QueryParams)
	return out, v
}

// checkHeaderName returns a failed verdict, which names field, if no header can have the name.
func checkHeaderName(field, name string) verdict {
	if fault := config.HeaderNameFault(name); fault != "" {
		return unsupported("%s.name: %s", field, fault)
	}
	return verdict{}
}

// stringMatch converts the value of a header or query parameter, which is exact by default. The
// verdict fails for an unsupported type, with a nil match, and for an invalid expression.
func stringMatch(field string, kind *string, value string) (*networking.StringMatch, verdict) {
	switch {
	case kind == nil || *kind == "" || *kind == string(gatewayv1.HeaderMatchExact):
		return exactly(value), verdict{}
	case *kind == string(gatewayv1.HeaderMatchRegularExpression):
		return expression(value), checkExpression(field+".value", value)
	default:
		return nil, unsupported("%s.type: %q is not supported", field, *kind)
	}
}

// setPath sets the match of the path and its rank. The type is a prefix and the value "/" if p does
// not set them. A prefix matches whole path elements, and its trailing slashes do not count. The
// verdict fails for an invalid expression, and for an unsupported type, for which nothing is set.
func (m *httpMatch) setPath(field string, p *gatewayv1.HTTPPathMatch) verdict {
	kind, value := gatewayv1.PathMatchPathPrefix, "/"
	if p != nil && p.Type != nil {
		kind = *p.Type
	}
	if p != nil && p.Value != nil {
		value = *p.Value
	}
	switch kind {
	case gatewayv1.PathMatchExact:
		m.rank.path, m.rank.length = exactPath, len(value)
		m.match.Uri = exactly(value)
	case gatewayv1.PathMatchRegularExpression:
		m.rank.path, m.rank.length = regexPath, len(value)
		m.match.Uri = expression(value)
		return checkExpression(field+".path.value", value)
	case gatewayv1.PathMatchPathPrefix:
		m.rank.path, m.rank.length = prefixPath, len(value)
		m.isPrefix, m.prefix = true, strings.TrimRight(value, "/")
		text := m.prefix
		if m.elements = text != ""; !m.elements {
			text = "/"
		}
		m.match.Uri = &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: text}}
	default:
		return unsupported("%s.path.type: %q is not supported", field, kind)
	}
	return verdict{}
}
