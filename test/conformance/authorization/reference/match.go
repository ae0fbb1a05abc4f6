package reference

import "strings"

// text reports whether a pattern matches a value: "abc", "abc*", "*abc", or "*" for any value that is not empty.
func text(pattern, value string) bool {
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

// host reports whether a pattern matches the request's host, regardless of case, of the port, and of the dot that ends an
// absolute name (ISTIO-SECURITY-2021-008).
func (m matcher) host(pattern string) bool {
	pattern, host := strings.ToLower(pattern), strings.ToLower(m.call.Host)
	if text(pattern, host) {
		return true
	}
	name, _, _ := strings.Cut(host, ":")
	return text(pattern, name) || text(pattern, strings.TrimSuffix(name, "."))
}

// path reports whether a pattern matches the request's path without its query, as normalized.
func (m matcher) path(pattern string) bool {
	path, _, _ := strings.Cut(m.call.Path, "?")
	path = Normalize(m.workload.Normalization, path)
	if strings.Contains(pattern, "{") {
		return template(strings.Split(pattern, "/"), path)
	}
	return text(pattern, path)
}

// template reports whether the segments of a template match a path: {*} is one segment that is not empty, {**} is any number of
// segments.
func template(segments []string, path string) bool {
	if len(segments) == 1 {
		return segmentMatches(segments[0], path) && (segments[0] == "{**}" || !strings.Contains(path, "/"))
	}
	if segments[0] == "{**}" { // the rest has no operators
		rest := "/" + strings.Join(segments[1:], "/")
		return strings.HasSuffix(path, rest)
	}
	first, rest, ok := strings.Cut(path, "/")
	return ok && segmentMatches(segments[0], first) && template(segments[1:], rest)
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
