package explain

import (
	"fmt"
	"regexp"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// stringMatches reports whether a value matches a StringMatcher, regardless of case if it ignores
// it. A regular expression must match the whole value; ignore_case then only converts the value to
// lower case. It returns an error for an unsupported matcher or an invalid regular expression.
func stringMatches(m *matcherv3.StringMatcher, value string) (bool, error) {
	same := func(s string) string {
		if m.GetIgnoreCase() {
			return strings.ToLower(s)
		}
		return s
	}
	value = same(value)
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return value == same(p.Exact), nil
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(value, same(p.Prefix)), nil
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(value, same(p.Suffix)), nil
	case *matcherv3.StringMatcher_Contains:
		return strings.Contains(value, same(p.Contains)), nil
	case *matcherv3.StringMatcher_SafeRegex:
		return matchesWhole(p.SafeRegex.GetRegex(), value)
	default:
		return false, fmt.Errorf("the string matcher %T is not supported", p)
	}
}

// stringText describes the condition of a StringMatcher. Unsupported ones are described as "as
// asked for".
func stringText(m *matcherv3.StringMatcher) string {
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return "is " + p.Exact
	case *matcherv3.StringMatcher_Prefix:
		return "begins with " + p.Prefix
	case *matcherv3.StringMatcher_Suffix:
		return "ends with " + p.Suffix
	case *matcherv3.StringMatcher_Contains:
		return "contains " + p.Contains
	case *matcherv3.StringMatcher_SafeRegex:
		return "matches " + p.SafeRegex.GetRegex()
	default:
		return "as asked for"
	}
}

// matchesWhole reports whether a regular expression matches the whole text. Envoy and Go both use
// RE2 syntax. It returns an error for an invalid expression.
func matchesWhole(expression, text string) (bool, error) {
	re, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	if err != nil {
		return false, fmt.Errorf("the regular expression %q cannot be read: %w", expression, err)
	}
	return re.MatchString(text), nil
}
