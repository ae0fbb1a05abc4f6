package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// rule is a match of a route in a VirtualService or its delegate.
type rule struct {
	by    []Object // the path in the delegate first
	match *networking.HTTPMatchRequest
	route *networking.HTTPRoute
}

// ruleOf returns the rule of a VirtualService that produced the route wanted, a pointer in routes.
// For a rule of a delegate, the delegate's path is first and the delegating rule's second. It
// returns nil if none is found, and if c is nil or of another kind. Each route of c, in order,
// belongs to the next rule that could create it, because rules for other proxies produce none.
func ruleOf(
	c *config.Config,
	object func(config.Key) *config.Config,
	routes []*routev3.Route,
	wanted *routev3.Route,
) []Object {
	if c == nil || c.Kind != api.VirtualService {
		return nil
	}
	rules := rulesOf(c, object)
	at := 0
	for _, r := range routes {
		if key, ok := MetadataKey(r.GetMetadata()); !ok || key != c.Key {
			continue
		}
		for at < len(rules) && !rules[at].couldCreate(r) {
			at++
		}
		if at == len(rules) {
			return nil
		}
		if r == wanted {
			return rules[at].by
		}
		at++
	}
	return nil
}

// rulesOf returns the HTTP rules of a VirtualService in their order, one for each match, or one for
// a rule without matches. A rule that delegates is replaced by the rules of its delegate, and left
// out if the delegate does not exist. object must not be nil if a rule delegates.
func rulesOf(c *config.Config, object func(config.Key) *config.Config) []rule {
	var list []rule
	for i, h := range config.Spec[*networking.VirtualService](c).GetHttp() {
		own := matchesOf(c.Key, i, h)
		if h.GetDelegate() == nil {
			list = append(list, own...)
			continue
		}
		key := config.Key{
			Kind:      api.VirtualService,
			Namespace: h.GetDelegate().GetNamespace(),
			Name:      h.GetDelegate().GetName(),
		}
		if key.Namespace == "" {
			key.Namespace = c.Namespace
		}
		if d := object(key); d != nil {
			list = append(list, delegateRules(own, d)...)
		}
	}
	return list
}

// matchesOf returns a rule for each match of the HTTP route with index i, or one rule if it has no
// matches. key is its VirtualService.
func matchesOf(key config.Key, i int, h *networking.HTTPRoute) []rule {
	text := fmt.Sprintf("spec.http[%d]", i)
	if len(h.GetMatch()) == 0 {
		return []rule{{by: []Object{{key, text}}, route: h}}
	}
	var list []rule
	for j, m := range h.GetMatch() {
		list = append(list, rule{by: []Object{{key, fmt.Sprintf("%s.match[%d]", text, j)}}, match: m, route: h})
	}
	return list
}

// delegateRules returns the rules of the delegate d, each combined with each rule of the delegating
// route in own. They are in the order of d's rules, then of own, then of the matches of d's rule.
func delegateRules(own []rule, d *config.Config) []rule {
	var list []rule
	for i, h := range config.Spec[*networking.VirtualService](d).GetHttp() {
		for _, root := range own {
			for _, leaf := range matchesOf(d.Key, i, h) {
				list = append(
					list,
					rule{by: append(leaf.by, root.by...), match: mergeMatches(root.match, leaf.match), route: h},
				)
			}
		}
	}
	return list
}

// mergeMatches merges the matches of a delegating rule and of its delegate, limited to the fields
// that couldCreate compares. The delegate's fields override; headers and query parameters are
// united. The name is the delegate's. If root or leaf is nil, it returns the other one unchanged.
func mergeMatches(root, leaf *networking.HTTPMatchRequest) *networking.HTTPMatchRequest {
	switch {
	case root == nil:
		return leaf
	case leaf == nil:
		return root
	}
	out := &networking.HTTPMatchRequest{
		Name:           leaf.GetName(),
		Uri:            leaf.GetUri(),
		Method:         leaf.GetMethod(),
		Authority:      leaf.GetAuthority(),
		Scheme:         leaf.GetScheme(),
		Headers:        map[string]*networking.StringMatch{},
		WithoutHeaders: map[string]*networking.StringMatch{},
		QueryParams:    map[string]*networking.StringMatch{},
	}
	for _, own := range []struct {
		to   **networking.StringMatch
		from *networking.StringMatch
	}{
		{&out.Uri, root.GetUri()},
		{&out.Method, root.GetMethod()},
		{&out.Authority, root.GetAuthority()},
		{&out.Scheme, root.GetScheme()},
	} {
		if *own.to == nil {
			*own.to = own.from
		}
	}
	for _, m := range []*networking.HTTPMatchRequest{root, leaf} {
		maps.Copy(out.Headers, m.GetHeaders())
		maps.Copy(out.WithoutHeaders, m.GetWithoutHeaders())
		maps.Copy(out.QueryParams, m.GetQueryParams())
	}
	return out
}

// couldCreate reports whether a route may come from the rule. It compares names, the path, the
// names of headers and parameters, and the action. The route's name only has to contain the names
// of the rule and its match.
func (u rule) couldCreate(r *routev3.Route) bool {
	named := strings.Contains(r.GetName(), u.route.GetName()) && strings.Contains(r.GetName(), u.match.GetName())
	return named && u.headersResemble(r.GetMatch()) && u.queryResembles(r.GetMatch()) &&
		u.pathResembles(r.GetMatch()) &&
		u.endResembles(r)
}

// headersResemble reports whether the rule has a condition on each header of m, and m has the
// rule's conditions on method, authority and scheme, and at least as many headers as the rule
// requires. It compares names, not values.
func (u rule) headersResemble(m *routev3.RouteMatch) bool {
	own := map[string]bool{
		":method":    u.match.GetMethod() != nil,
		":authority": u.match.GetAuthority() != nil,
		":scheme":    u.match.GetScheme() != nil,
	}
	for _, h := range m.GetHeaders() {
		name := h.GetName()
		_, with := u.match.GetHeaders()[name]
		_, without := u.match.GetWithoutHeaders()[name]
		if !with && !without && !own[name] {
			return false
		}
		delete(own, name)
	}
	for _, missing := range own {
		if missing {
			return false
		}
	}
	return len(m.GetHeaders()) >= len(u.match.GetHeaders())
}

// queryResembles reports whether a RouteMatch has conditions on exactly the query parameters of the
// rule's match, by name. The conditions are not compared.
func (u rule) queryResembles(m *routev3.RouteMatch) bool {
	for _, q := range m.GetQueryParameters() {
		if _, ok := u.match.GetQueryParams()[q.GetName()]; !ok {
			return false
		}
	}
	return len(m.GetQueryParameters()) == len(u.match.GetQueryParams())
}

// endResembles reports whether the route has the kind of action of the rule, and only clusters
// whose subset is that of one of the rule's destinations. Clusters with other names are ignored. A
// rule without redirect and response must not come to a redirect.
func (u rule) endResembles(r *routev3.Route) bool {
	switch {
	case u.route.GetRedirect() != nil:
		return r.GetRedirect() != nil
	case u.route.GetDirectResponse() != nil:
		return r.GetDirectResponse() != nil
	}
	names := []string{r.GetRoute().GetCluster()}
	if w := r.GetRoute().GetWeightedClusters(); w != nil {
		names = nil
		for _, c := range w.GetClusters() {
			names = append(names, c.GetName())
		}
	}
	for _, n := range names {
		c, err := mesh.ParseClusterName(n)
		if err == nil &&
			!slices.ContainsFunc(
				u.route.GetRoute(),
				func(d *networking.HTTPRouteDestination) bool { return d.GetDestination().GetSubset() == c.Subset },
			) {
			return false
		}
	}
	return r.GetRedirect() == nil
}

// pathResembles reports whether a RouteMatch has the path condition that the rule's match is
// translated to. Without a path, that is the prefix "/".
func (u rule) pathResembles(m *routev3.RouteMatch) bool {
	switch s := u.match.GetUri().GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return m.GetPath() == s.Exact
	case *networking.StringMatch_Prefix:
		return m.GetPrefix() == s.Prefix || m.GetPathSeparatedPrefix() == strings.TrimSuffix(s.Prefix, "/")
	case *networking.StringMatch_Regex:
		return m.GetSafeRegex().GetRegex() == s.Regex
	default:
		return m.GetPrefix() == "/"
	}
}

// ruleOnly removes the match from a path: "spec.http[2].match[0]" becomes "spec.http[2]".
func ruleOnly(text string) string {
	r, _, _ := strings.Cut(text, ".match[")
	return r
}

// subsetRule returns the path of a subset in a DestinationRule, or "" if the subset does not exist.
// It also returns "" for a nil DestinationRule.
func subsetRule(c *config.Config, subset string) string {
	if c == nil {
		return ""
	}
	for i, s := range config.Spec[*networking.DestinationRule](c).GetSubsets() {
		if s.GetName() == subset {
			return fmt.Sprintf("spec.subsets[%d]", i)
		}
	}
	return ""
}
