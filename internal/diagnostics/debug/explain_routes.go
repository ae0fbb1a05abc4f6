package debug

import (
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"istio.io/api/label"

	"github.com/meshpilot/meshpilot/internal/diagnostics/explain"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// maxRouteNotes limits the number of notes about routes.
const maxRouteNotes = 5

// routeNotes returns the Problems of routes of the Gateway API that explain the path of a call,
// without duplicates, at most the first maxRouteNotes. They are about rules in the path, such as a
// missing backend, or about parents that do not accept a route for the call.
func (e *explanation) routeNotes(call explain.Call, path *explain.Path) []string {
	var notes []string
	s := e.view.Snapshot
	for _, problem := range s.Problems() {
		if !slices.Contains([]api.Kind{api.HTTPRoute, api.GRPCRoute, api.TLSRoute, api.TCPRoute}, problem.Key.Kind) {
			continue
		}
		note := ""
		switch {
		case isRuleOf(path, problem):
			note = problem.String()
		case strings.HasPrefix(problem.Field, "spec.parentRefs") && e.isFor(s.Config(problem.Key), call):
			note = "not attached: " + problem.String()
		}
		if note != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes[:min(len(notes), maxRouteNotes)]
}

// isRuleOf reports whether a Problem is about a rule that is in the path, by its field, or about a
// field of the rule. It returns false for a Problem about the whole object.
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

// isFor reports whether a route would apply to a call if its parents accepted it. It compares an
// HTTPRoute with host and path of the request, a GRPCRoute with its host, a TLSRoute with the
// server name. A TCPRoute applies to calls without a request, by its parents. It returns false for
// nil and other kinds.
func (e *explanation) isFor(route *config.Config, call explain.Call) bool {
	if route == nil {
		return false
	}
	r := call.Request
	switch o := route.Spec.(type) {
	case *gatewayv1.HTTPRoute:
		return r != nil && hasPath(o.Spec.Rules, r.Path) && hasHost(o.Spec.Hostnames, explain.HostOf(r.Authority))
	case *gatewayv1.GRPCRoute:
		return r != nil && hasHost(o.Spec.Hostnames, explain.HostOf(r.Authority))
	case *gatewayv1.TLSRoute:
		return call.ServerName != "" && hasHost(o.Spec.Hostnames, call.ServerName)
	case *gatewayv1.TCPRoute:
		return r == nil && slices.ContainsFunc(o.Spec.ParentRefs, func(p gatewayv1.ParentReference) bool {
			return e.isNearParent(p, route.Namespace, call)
		})
	default:
		return false
	}
}

// isNearParent reports whether a parentRef with a port has the port of the call. A parentRef
// without a port must refer to the proxy's Gateway, by name and namespace. namespace is the
// route's, and applies if the parentRef has none.
func (e *explanation) isNearParent(p gatewayv1.ParentReference, namespace string, call explain.Call) bool {
	if p.Port != nil {
		return *p.Port == gatewayv1.PortNumber(call.To.Port())
	}
	if p.Namespace != nil {
		namespace = string(*p.Namespace)
	}
	return namespace == e.proxy.Namespace &&
		string(p.Name) == e.proxy.Labels[label.IoK8sNetworkingGatewayGatewayName.Name]
}

// hasHost reports whether the hostnames of a route match a host. A route without hostnames matches
// all.
func hasHost(hosts []gatewayv1.Hostname, host string) bool {
	return len(hosts) == 0 || slices.ContainsFunc(hosts, func(h gatewayv1.Hostname) bool {
		return mesh.Hostname(h).Matches(mesh.Hostname(strings.ToLower(host)))
	})
}

// hasPath reports whether a rule may match a path, whose query is ignored. It compares exact paths
// and path prefixes, by whole segments, case-sensitively. It returns true for regular expressions,
// for matches without a path, and without rules or matches.
func hasPath(rules []gatewayv1.HTTPRouteRule, path string) bool {
	path, _, _ = strings.Cut(path, "?")
	for _, rule := range rules {
		for _, m := range rule.Matches {
			switch {
			case m.Path == nil || m.Path.Value == nil ||
				m.Path.Type != nil && *m.Path.Type == gatewayv1.PathMatchRegularExpression:
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
