package explain

import (
	"fmt"
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// asksOfRequests reports whether one of the AuthorizationPolicy rules has conditions on HTTP
// requests, which are ignored for TCP connections. It ignores rules of unavailable objects.
func (w *walk) asksOfRequests(rules []Object) bool {
	return slices.ContainsFunc(rules, func(o Object) bool {
		var i int
		if _, err := fmt.Sscanf(o.Rule, "spec.rules[%d]", &i); err != nil || w.Object == nil || w.Object(o.Key) == nil {
			return false
		}
		list := config.Spec[*security.AuthorizationPolicy](w.Object(o.Key)).GetRules()
		return i < len(list) && ofRequests(list[i])
	})
}

// ofRequests reports whether a rule has conditions on HTTP requests: hosts, methods, paths, request
// principals, or "request." keys.
func ofRequests(r *security.Rule) bool {
	for _, to := range r.GetTo() {
		o := to.GetOperation()
		if len(
			slices.Concat(
				o.GetHosts(),
				o.GetNotHosts(),
				o.GetMethods(),
				o.GetNotMethods(),
				o.GetPaths(),
				o.GetNotPaths(),
			),
		) > 0 {
			return true
		}
	}
	for _, from := range r.GetFrom() {
		if len(slices.Concat(from.GetSource().GetRequestPrincipals(), from.GetSource().GetNotRequestPrincipals())) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(
		r.GetWhen(),
		func(c *security.Condition) bool { return strings.HasPrefix(c.GetKey(), "request.") },
	)
}
