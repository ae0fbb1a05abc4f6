package ingress

import (
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	networking "istio.io/api/networking/v1alpha3"
)

// path is which requests a rule is for.
type path struct {
	// text is the path, without a "/" at the end for a prefix; "" for a prefix of everything.
	text  string
	exact bool
	// length ranks it: longer paths go first, and all before one that is for whatever path there is.
	length int
}

// pathOf reads a path. A path of no type of its own (ImplementationSpecific) is an exact one, unless it ends in a wildcard.
func pathOf(p *networkingv1.HTTPIngressPath) path {
	kind := networkingv1.PathTypeImplementationSpecific
	if p.PathType != nil {
		kind = *p.PathType
	}
	switch kind {
	case networkingv1.PathTypeExact:
		return path{p.Path, true, len(p.Path)}
	case networkingv1.PathTypePrefix:
		return prefix(p.Path)
	}
	switch p.Path {
	case "", "*", "/*", ".*":
		return path{}
	}
	for _, wildcard := range [...]string{".*", "/*"} {
		if before, found := strings.CutSuffix(p.Path, wildcard); found {
			return prefix(before)
		}
	}
	return path{p.Path, true, len(p.Path)}
}

func prefix(text string) path {
	text = strings.TrimSuffix(text, "/")
	return path{text, false, max(len(text), 1)}
}

// everything says that no path is left for others.
func (p path) everything() bool { return !p.exact && p.text == "" }

// compare orders paths as an Ingress has it: the longest first, and of equally long ones the exact one.
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

// matches gives what a request has to match. A prefix is one of whole elements: "/a" stands for "/a" and what is below "/a/", and
// not for "/ab".
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
