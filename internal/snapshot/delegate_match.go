package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// narrowed gives the matches of a delegate's route within those of the root's: each of the delegate's joined with each of
// the root's that it fits. One that fits none makes the whole route unusable; fault then says what stands against it.
func narrowed(root, leaf []*networking.HTTPMatchRequest) (matches []*networking.HTTPMatchRequest, fault string) {
	if len(root) == 0 {
		return leaf, ""
	}
	if len(leaf) == 0 {
		return root, ""
	}
	for i, l := range leaf {
		fits := false
		for _, r := range root {
			field := conflict(r, l)
			if field == "" {
				matches, fits = append(matches, joined(r, l)), true
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

// conflict names the field by which a delegate's match takes requests that the root's does not; "" if there is none.
//
// The rules are Istio's: they compare field by field, and find a conflict in some that would be none, such as a
// sourceNamespace that only the root has.
func conflict(root, leaf *networking.HTTPMatchRequest) string {
	for _, f := range []struct {
		name       string
		root, leaf *networking.StringMatch
	}{
		{"uri", root.GetUri(), leaf.GetUri()}, {"scheme", root.GetScheme(), leaf.GetScheme()},
		{"method", root.GetMethod(), leaf.GetMethod()}, {"authority", root.GetAuthority(), leaf.GetAuthority()},
	} {
		if !within(f.root, f.leaf) {
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
			if !within(f.root[key], f.leaf[key]) {
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
	case len(root.GetGateways()) > 0 && slices.ContainsFunc(leaf.GetGateways(), func(g string) bool { return !slices.Contains(root.GetGateways(), g) }):
		return "gateways"
	}
	return ""
}

// within says whether each value that leaf matches is one that root matches. What is not set matches everything, on either
// side: joined then has the other's. Regular expressions are not compared, so that one does not go with anything.
func within(root, leaf *networking.StringMatch) bool {
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

// joined gives a match that asks for what either of two asks for; where both do, the delegate's is the narrower one.
func joined(root, leaf *networking.HTTPMatchRequest) *networking.HTTPMatchRequest {
	m := proto.CloneOf(leaf)
	m.Name = joinedName(root.GetName(), leaf.GetName())
	for _, f := range []struct {
		to   **networking.StringMatch
		root *networking.StringMatch
	}{{&m.Uri, root.GetUri()}, {&m.Scheme, root.GetScheme()}, {&m.Method, root.GetMethod()}, {&m.Authority, root.GetAuthority()}} {
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
