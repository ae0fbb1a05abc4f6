package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// intersectMatches returns the matches leaf of a delegate's route, restricted by the matches root
// of the delegating route: each leaf match is merged with every root match that contains it. No
// matches match everything: if either is empty, the result is the other one itself. If some leaf
// match is contained in no root match, the whole route is unusable: matches is nil and fault
// describes the conflict. Otherwise fault is "".
func intersectMatches(
	root, leaf []*networking.HTTPMatchRequest,
) (matches []*networking.HTTPMatchRequest, fault string) {
	if len(root) == 0 {
		return leaf, ""
	}
	if len(leaf) == 0 {
		return root, ""
	}
	for i, l := range leaf {
		fits := false
		for _, r := range root {
			field := conflictingField(r, l)
			if field == "" {
				matches, fits = append(matches, mergeMatches(r, l)), true
			} else if fault == "" {
				fault = fmt.Sprintf("its match[%d].%s does not lie within that of the route that delegates", i, field)
			}
		}
		if !fits {
			return nil, fault
		}
		fault = ""
	}
	return matches, ""
}

// conflictingField returns the first field in which a delegate's match is not contained in the
// root's match, or "" if there is none. An entry of a map is returned as "headers[NAME]".
//
// The rules are Istio's. They compare field by field, so they also report some conflicts that are
// none, such as a sourceNamespace that only the root has.
func conflictingField(root, leaf *networking.HTTPMatchRequest) string {
	for _, f := range []struct {
		name       string
		root, leaf *networking.StringMatch
	}{
		{"uri", root.GetUri(), leaf.GetUri()}, {"scheme", root.GetScheme(), leaf.GetScheme()},
		{"method", root.GetMethod(), leaf.GetMethod()}, {"authority", root.GetAuthority(), leaf.GetAuthority()},
	} {
		if !isSubset(f.root, f.leaf) {
			return f.name
		}
	}
	for _, f := range []struct {
		name       string
		root, leaf map[string]*networking.StringMatch
	}{
		{"headers", root.GetHeaders(), leaf.GetHeaders()},
		{"withoutHeaders", root.GetWithoutHeaders(), leaf.GetWithoutHeaders()},
		{"queryParams", root.GetQueryParams(), leaf.GetQueryParams()},
	} {
		for _, key := range slices.Sorted(maps.Keys(f.leaf)) {
			if !isSubset(f.root[key], f.leaf[key]) {
				return f.name + "[" + key + "]"
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(leaf.GetSourceLabels())) {
		if v, there := root.GetSourceLabels()[key]; there && v != leaf.GetSourceLabels()[key] {
			return "sourceLabels[" + key + "]"
		}
	}
	switch {
	case root.GetIgnoreUriCase() != leaf.GetIgnoreUriCase():
		return "ignoreUriCase"
	case root.GetPort() != 0 && leaf.GetPort() != 0 && root.GetPort() != leaf.GetPort():
		return "port"
	case root.GetSourceNamespace() != "" && root.GetSourceNamespace() != leaf.GetSourceNamespace():
		return "sourceNamespace"
	case len(root.GetGateways()) > 0 &&
		slices.ContainsFunc(leaf.GetGateways(), func(g string) bool { return !slices.Contains(root.GetGateways(), g) }):
		return "gateways"
	}
	return ""
}

// isSubset reports whether every value that leaf matches is also matched by root, with letters
// compared by case. It returns true if either is nil, because mergeMatches then uses the other one.
// It returns false if either is a regular expression or empty.
func isSubset(root, leaf *networking.StringMatch) bool {
	if root == nil || leaf == nil {
		return true
	}
	switch r := root.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return r.Exact != "" && leaf.GetPrefix() == "" && leaf.GetExact() == r.Exact
	case *networking.StringMatch_Prefix:
		if r.Prefix == "" {
			return false
		}
		return leaf.GetPrefix() != "" && strings.HasPrefix(leaf.GetPrefix(), r.Prefix) ||
			leaf.GetExact() != "" && strings.HasPrefix(leaf.GetExact(), r.Prefix)
	default:
		return false
	}
}

// mergeMatches returns a new match for requests that match both root and leaf; it shares maps and
// values with both. For a field or header that both set, the value of leaf, the delegate's, is
// used, because it is the more specific one; the names are joined. Conflicts must have been
// excluded before (conflictingField).
func mergeMatches(root, leaf *networking.HTTPMatchRequest) *networking.HTTPMatchRequest {
	m := proto.CloneOf(leaf)
	m.Name = joinedName(root.GetName(), leaf.GetName())
	for _, f := range []struct {
		to   **networking.StringMatch
		root *networking.StringMatch
	}{
		{&m.Uri, root.GetUri()},
		{&m.Scheme, root.GetScheme()},
		{&m.Method, root.GetMethod()},
		{&m.Authority, root.GetAuthority()},
	} {
		if *f.to == nil {
			*f.to = f.root
		}
	}
	m.Headers = union(root.GetHeaders(), leaf.GetHeaders())
	m.WithoutHeaders = union(root.GetWithoutHeaders(), leaf.GetWithoutHeaders())
	m.QueryParams = union(root.GetQueryParams(), leaf.GetQueryParams())
	m.SourceLabels = union(root.GetSourceLabels(), leaf.GetSourceLabels())
	if m.Port == 0 {
		m.Port = root.GetPort()
	}
	if len(m.Gateways) == 0 {
		m.Gateways = root.GetGateways()
	}
	if m.StatPrefix == "" {
		m.StatPrefix = root.GetStatPrefix()
	}
	return m
}
