package reference

import "strings"

// matchesText reports whether a pattern matches a value: "abc", "abc*", "*abc", or "*" for any
// value that is not empty.
func matchesText(pattern, value string) bool {
	switch {
	case pattern == "*":
		return value != ""
	case strings.HasPrefix(pattern, "*"):
		return strings.HasSuffix(value, pattern[1:])
	case strings.HasSuffix(pattern, "*"):
		return strings.HasPrefix(value, pattern[:len(pattern)-1])
	default:
		return pattern == value
	}
}

// matchesHost reports whether a pattern matches the request's host, regardless of case, of the
// port, and of the dot that ends an absolute name (ISTIO-SECURITY-2021-008).
func (m matcher) matchesHost(pattern string) bool {
	pattern, host := strings.ToLower(pattern), strings.ToLower(m.call.Host)
	if matchesText(pattern, host) {
		return true
	}
	name := host
	if i := strings.LastIndex(host, ":"); i >= 0 && strings.Trim(host[i+1:], "0123456789") == "" {
		name = host[:i]
	}
	return matchesText(pattern, name) || matchesText(pattern, strings.TrimSuffix(name, "."))
}

// matchesPath reports whether a pattern matches the request's path without its query, as
// normalized.
func (m matcher) matchesPath(pattern string) bool {
	path, _, _ := strings.Cut(m.call.Path, "?")
	path = Normalize(m.workload.Normalization, path)
	if strings.Contains(pattern, "{") {
		return matchesTemplate(strings.Split(pattern, "/"), path)
	}
	return matchesText(pattern, path)
}

// matchesTemplate reports whether the segments of a template match a path: {*} is one segment that
// is not empty, {**} is any number of segments.
func matchesTemplate(segments []string, path string) bool {
	if len(segments) == 1 {
		return segmentMatches(segments[0], path) && (segments[0] == "{**}" || !strings.Contains(path, "/"))
	}
	if segments[0] == "{**}" { // the rest has no operators
		rest := "/" + strings.Join(segments[1:], "/")
		return strings.HasSuffix(path, rest)
	}
	first, rest, ok := strings.Cut(path, "/")
	return ok && segmentMatches(segments[0], first) && matchesTemplate(segments[1:], rest)
}

func segmentMatches(pattern, segment string) bool {
	switch pattern {
	case "{**}":
		return true
	case "{*}":
		return segment != ""
	default:
		return pattern == segment
	}
}
