package explain

import (
	"regexp"
	"strings"
)

// What the operators of a path template stand for (envoy.path.match.uri_template): characters that RFC 3986 lets stand in a path, and
// no others: a segment with a bracket is none to them.
const (
	segmentGlob = "[a-zA-Z0-9-._~%!$&'()*+,;:@=]+"
	textGlob    = "[a-zA-Z0-9-._~%!$&'()*+,;:@=/]*"
)

// template compares the path without its query with "/a/*/b/**".
func (a asked) template(text string) (finding, error) {
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
	path, _ := a.request.path()
	ok, err := wholly(expression.String(), path)
	return found("the path", path, "is as "+text, ok), err
}
