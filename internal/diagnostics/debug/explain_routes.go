package debug

import (
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// maxRouteNotes limits the number of notes about routes.
const maxRouteNotes = 5

// routeNotes returns the Problems of HTTPRoutes and GRPCRoutes that explain the path of a request: of
// the rules in the path, such as a missing backend, and of routes for the request's host that a parent
// does not accept.
func (e *explanation) routeNotes(call explain.Call, path *explain.Path) []string {
	if call.Request == nil {
		return nil
	}
	var notes []string
	s := e.view.Snapshot
	for _, problem := range s.Problems() {
		if problem.Key.Kind != api.HTTPRoute && problem.Key.Kind != api.GRPCRoute {
			continue
		}
		note := ""
		switch {
		case isRuleOf(path, problem):
			note = problem.String()
		case strings.HasPrefix(problem.Field, "spec.parentRefs") && isFor(s.Config(problem.Key), call.Request):
			note = "not attached: " + problem.String()
		}
		if note != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes[:min(len(notes), maxRouteNotes)]
}

// isRuleOf reports whether a Problem is about a rule that is in the path.
func isRuleOf(path *explain.Path, problem config.Problem) bool {
	for _, step := range path.Steps {
		for _, o := range step.By {
			if o.Key != problem.Key || o.Rule == "" {
				continue
			}
			if rest, found := strings.CutPrefix(problem.Field, o.Rule); found && (rest == "" || rest[0] == '.') {
				return true
			}
		}
	}
	return false
}

// isFor reports whether a route, which may be nil, has no hostnames or one that matches the host of a
// request, and a rule for its path.
func isFor(route *config.Config, r *explain.Request) bool {
	if route == nil {
		return false
	}
	var hosts []gatewayv1.Hostname
	forPath := true
	switch o := route.Spec.(type) {
	case *gatewayv1.HTTPRoute:
		hosts, forPath = o.Spec.Hostnames, hasPath(o.Spec.Rules, r.Path)
	case *gatewayv1.GRPCRoute:
		hosts = o.Spec.Hostnames
	default:
		return false
	}
	host := mesh.Hostname(strings.ToLower(explain.HostOf(r.Authority)))
	return forPath && (len(hosts) == 0 || slices.ContainsFunc(hosts, func(h gatewayv1.Hostname) bool {
		return mesh.Hostname(h).Matches(host)
	}))
}

// hasPath reports whether a rule may match a path. It returns true for regular expressions.
func hasPath(rules []gatewayv1.HTTPRouteRule, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	for _, rule := range rules {
		for _, m := range rule.Matches {
			switch {
			case m.Path == nil || m.Path.Value == nil || m.Path.Type != nil && *m.Path.Type == gatewayv1.PathMatchRegularExpression:
				return true
			case m.Path.Type != nil && *m.Path.Type == gatewayv1.PathMatchExact:
				if path == *m.Path.Value {
					return true
				}
			case strings.HasPrefix(path+"/", strings.TrimSuffix(*m.Path.Value, "/")+"/"):
				return true
			}
		}
		if len(rule.Matches) == 0 {
			return true
		}
	}
	return len(rules) == 0
}
