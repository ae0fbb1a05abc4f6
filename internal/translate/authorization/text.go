package authorization

import (
	"regexp"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// quoted returns a regular expression that matches text and nothing else. All users' text in
// regular expressions goes through it.
func quoted(text string) string { return regexp.QuoteMeta(text) }

// present is the pattern of any value that is not empty.
const present = "*"

// pattern returns the matcher of a value of the API: exact, "prefix*", "*suffix", or "*" for any
// text that is not empty.
func pattern(value string) *matcherv3.StringMatcher {
	switch {
	case value == present:
		return regex(".+")
	case strings.HasSuffix(value, "*"):
		return &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: strings.TrimSuffix(value, "*")},
		}
	case strings.HasPrefix(value, "*"):
		return &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: strings.TrimPrefix(value, "*")},
		}
	default:
		return exactly(value)
	}
}

// exactly returns a matcher of text and nothing else.
func exactly(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: text}}
}

// ignoreCase makes m ignore case and returns it. Regular expressions stay unchanged, because
// generated ones contain the flag.
func ignoreCase(m *matcherv3.StringMatcher) *matcherv3.StringMatcher {
	if m.GetSafeRegex() == nil { // Generated expressions contain the flag.
		m.IgnoreCase = true
	}
	return m
}

// regex returns a matcher of texts that the expression matches completely.
func regex(expression string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: expression}},
	}
}

// within returns the regular expression of the pattern value inside a longer text. anything is the
// class of characters that "*" matches: at least one for a lone "*", any number for a "*" at the
// beginning or end.
func within(value, anything string) string {
	switch {
	case value == present:
		return anything + "+"
	case strings.HasSuffix(value, "*"):
		return quoted(strings.TrimSuffix(value, "*")) + anything + "*"
	case strings.HasPrefix(value, "*"):
		return anything + "*" + quoted(strings.TrimPrefix(value, "*"))
	default:
		return quoted(value)
	}
}

// hostMatcher returns the matcher of an :authority by the pattern value, ignoring case, with or
// without a port and the dot of an absolute name. "*" in value also matches colons, because Envoy
// accepts them anywhere in an :authority.
func hostMatcher(value string) *matcherv3.StringMatcher {
	if value == present {
		return regex(".+")
	}
	return regex(`(?i)` + within(value, `.`) + `\.?(:[0-9]*)?`)
}
