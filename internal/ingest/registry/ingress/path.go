package ingress

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	networking "istio.io/api/networking/v1alpha3"
)

// path selects the requests of a rule by their path.
type path struct {
	// text is the path. For a prefix it has no trailing "/", and "" is the prefix of all paths.
	text  string
	exact bool
	// length determines the order: longer paths first, and a match of all paths last.
	length int
}

// parsePath returns the path of a rule. A path of type ImplementationSpecific, the default, is
// exact, unless it ends in a wildcard (".*" or "/*"): then it is a prefix. Such a path without
// text, or with only a wildcard or "*", matches all paths. A path of type Exact or Prefix has no
// wildcards.
func parsePath(p *networkingv1.HTTPIngressPath) path {
	kind := networkingv1.PathTypeImplementationSpecific
	if p.PathType != nil {
		kind = *p.PathType
	}
	switch kind {
	case networkingv1.PathTypeExact:
		return path{p.Path, true, len(p.Path)}
	case networkingv1.PathTypePrefix:
		return prefixPath(p.Path)
	}
	switch p.Path {
	case "", "*", "/*", ".*":
		return path{}
	}
	for _, wildcard := range [...]string{".*", "/*"} {
		if before, found := strings.CutSuffix(p.Path, wildcard); found {
			return prefixPath(before)
		}
	}
	return path{p.Path, true, len(p.Path)}
}

// prefixPath returns a path that matches text and everything below it. A final "/" is ignored. Its
// length, for the order, is at least 1.
func prefixPath(text string) path {
	text = strings.TrimSuffix(text, "/")
	return path{text, false, max(len(text), 1)}
}

// matchesAll reports whether p matches all paths.
func (p path) matchesAll() bool { return !p.exact && p.text == "" }

// compare returns a negative number if p precedes o, positive if o precedes p, and otherwise 0. As
// the Ingress specification requires, the longest is first; of equal length, the exact one.
func (p path) compare(o path) int {
	switch {
	case p.length != o.length:
		return o.length - p.length
	case p.exact != o.exact && p.exact:
		return -1
	case p.exact != o.exact:
		return 1
	default:
		return 0
	}
}

// matches returns the equivalent matches of an HTTPRoute, nil for a path of length 0, which matches
// all requests. A prefix consists of whole path elements: "/a" matches "/a" and "/a/b", but not
// "/ab". The prefix "/" has one match.
func (p path) matches() []*networking.HTTPMatchRequest {
	uri := func(m *networking.StringMatch) *networking.HTTPMatchRequest {
		return &networking.HTTPMatchRequest{Uri: m}
	}
	exact := &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: p.text}}
	below := &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: p.text + "/"}}
	switch {
	case p.exact:
		return []*networking.HTTPMatchRequest{uri(exact)}
	case p.length == 0:
		return nil
	case p.text == "":
		return []*networking.HTTPMatchRequest{uri(below)}
	default:
		return []*networking.HTTPMatchRequest{uri(exact), uri(below)}
	}
}
