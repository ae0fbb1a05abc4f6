package explain

import (
	"regexp"
	"strings"
)

// Regular expressions for the operators of a path template (envoy.path.match.uri_template). They
// match only characters that RFC 3986 allows in a path, so a segment with a bracket never matches.
const (
	segmentGlob = "[a-zA-Z0-9-._~%!$&'()*+,;:@=]+"
	textGlob    = "[a-zA-Z0-9-._~%!$&'()*+,;:@=/]*"
)

// evalTemplate compares the path without the query with a template such as "/a/*/b/**". "*" matches
// within one segment, "**" across segments; other text is literal.
func (a rbacCall) evalTemplate(text string) (finding, error) {
	var expression strings.Builder
	for segment := range strings.SplitSeq(strings.TrimPrefix(text, "/"), "/") {
		expression.WriteByte('/')
		switch rest, isText := strings.CutPrefix(segment, "**"); {
		case isText:
			expression.WriteString(textGlob + regexp.QuoteMeta(rest))
		case strings.HasPrefix(segment, "*"):
			expression.WriteString(segmentGlob + regexp.QuoteMeta(segment[1:]))
		default:
			expression.WriteString(regexp.QuoteMeta(segment))
		}
	}
	path, _ := a.request.splitPath()
	ok, err := matchesWhole(expression.String(), path)
	return newFinding("the path", path, "is as "+text, ok), err
}
