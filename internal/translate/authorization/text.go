package authorization

import (
	"regexp"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// quoted makes a regular expression of text that matches that text and nothing else. It is the only way for text of users into one.
func quoted(text string) string { return regexp.QuoteMeta(text) }

// present is the pattern of anything that is not empty.
const present = "*"

// pattern reads a value of the API: exact, "prefix*", "*suffix", or "*" for anything that is not empty.
func pattern(value string) *matcherv3.StringMatcher {
	switch {
	case value == present:
		return regex(".+")
	case strings.HasSuffix(value, "*"):
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: strings.TrimSuffix(value, "*")}}
	case strings.HasPrefix(value, "*"):
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: strings.TrimPrefix(value, "*")}}
	default:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: value}}
	}
}

// anyCase has a pattern ignore the case of letters.
func anyCase(m *matcherv3.StringMatcher) *matcherv3.StringMatcher {
	if m.GetSafeRegex() == nil { // of ours, which say it themselves
		m.IgnoreCase = true
	}
	return m
}

// regex matches the whole of a text.
func regex(expression string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: expression}}}
}

// within gives the expression of a pattern inside a longer text.
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

// host is the pattern of an authority: in any case, with or without a port and the dot of a full name.
func host(value string) *matcherv3.StringMatcher {
	if value == present {
		return regex(".+") // addresses of IPv6 too, which are full of colons
	}
	return regex(`(?i)` + within(value, `[^:]`) + `\.?(:[0-9]*)?`)
}
