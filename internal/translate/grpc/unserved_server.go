package grpc

import (
	"fmt"
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"

	"istio.io/api/annotation"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// unservedPolicy returns a Warning for each condition of an AuthorizationPolicy that gRPC servers
// cannot evaluate, with how they treat it (proposal A41). tokens is set if a RequestAuthentication
// would have tokens validated. A dry run or AUDIT policy gets a single Warning, a CUSTOM policy one
// more for its action.
func unservedPolicy(c *config.Config, tokens bool) []config.Problem {
	r, p := &report{key: c.Key}, config.Spec[*security.AuthorizationPolicy](c)
	if tried, err := config.DryRun(c); err == nil && tried {
		r.addWarning(
			"metadata.annotations["+annotation.IoIstioDryRun.Name+"]",
			"the policy is not evaluated: they do not record the results of dry runs",
		)
		return r.list
	}
	switch p.GetAction() {
	case security.AuthorizationPolicy_AUDIT:
		r.addWarning("spec.action", "nothing is audited")
		return r.list
	case security.AuthorizationPolicy_CUSTOM:
		r.addWarning("spec.action", "they call no authorizer: requests that the rules select are denied")
	default:
	}
	what := "it is treated as not matching, so that it allows no request"
	if p.GetAction() != security.AuthorizationPolicy_ALLOW {
		what = "it is treated as matching, so that it denies every request that it may select"
	}
	for i, rule := range p.GetRules() {
		r.checkRule(fmt.Sprintf("spec.rules[%d]", i), rule, tokens, what)
	}
	return r.list
}

// checkRule adds a Warning for each condition of a rule that gRPC servers cannot evaluate or
// evaluate differently; at is its path. These are remote addresses, path templates, the server
// name, filter metadata and refused headers. Conditions on tokens are reported only if tokens is
// set: otherwise proxies have no tokens either. what describes how unknown conditions are treated.
func (r *report) checkRule(at string, rule *security.Rule, tokens bool, what string) {
	for i, f := range rule.GetFrom() {
		if s := f.GetSource(); tokens && len(s.GetRequestPrincipals())+len(s.GetNotRequestPrincipals()) > 0 {
			r.addWarning(
				fmt.Sprintf("%s.from[%d].source", at, i),
				"they read no tokens: request principals are unknown; %s",
				what,
			)
		}
		if s := f.GetSource(); len(s.GetRemoteIpBlocks())+len(s.GetNotRemoteIpBlocks()) > 0 {
			r.addWarning(
				fmt.Sprintf("%s.from[%d].source", at, i),
				"they do not read x-forwarded-for: the remote address is that of the connection",
			)
		}
	}
	for i, t := range rule.GetTo() {
		paths := slices.Concat(t.GetOperation().GetPaths(), t.GetOperation().GetNotPaths())
		if slices.ContainsFunc(
			paths,
			func(p string) bool { return strings.Contains(p, "{*}") || strings.Contains(p, "{**}") },
		) {
			r.addWarning(fmt.Sprintf("%s.to[%d].operation", at, i), "they have no path templates ({*}, {**})")
		}
	}
	for i, c := range rule.GetWhen() {
		field := fmt.Sprintf("%s.when[%d].key", at, i)
		switch k := c.GetKey(); {
		case strings.HasPrefix(k, "request.auth.") && tokens:
			r.addWarning(field, "they read no tokens: it is not known; %s", what)
		case k == "connection.sni":
			r.addWarning(field, "they do not know the server name that was asked for")
		case strings.HasPrefix(k, "experimental."):
			r.addWarning(field, "they have no filters that it could be of")
		case strings.HasPrefix(k, "request.headers[") &&
			isRefusedName(strings.TrimSuffix(strings.TrimPrefix(k, "request.headers["), "]")):
			r.addWarning(field, "they keep this header from policies")
		case k == "remote.ip":
			r.addWarning(field, "they do not read x-forwarded-for: it is the address of the connection")
		}
	}
}
