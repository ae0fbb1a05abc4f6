package explain

import (
	"net/http"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"google.golang.org/protobuf/types/known/structpb"
)

// Namespaces of the dynamic metadata in which the RBAC filters store their results.
const (
	httpAccess = "envoy.filters.http.rbac"
	tcpAccess  = "envoy.filters.network.rbac"
	// Response body and details that Envoy sends for a denied call (RESPONSE_CODE_DETAILS,
	// CONNECTION_TERMINATION_DETAILS).
	deniedBody    = "RBAC: access denied"
	deniedDetails = "rbac_access_denied_matched_policy"
	// Prefixes of the metadata keys of shadow rules: dry-run policies, and rules that select calls
	// for an external authorizer.
	dryRunPrefix     = "istio_dry_run_"
	authorizerPrefix = "istio_ext_authz_"
)

// access evaluates an HTTP RBAC filter. It returns nil if the request continues and a 403 ending if
// it is denied. A per-route configuration without rules disables the filter. Matchers are
// unsupported.
func (x *exchange) access(name string, f *httprbacv3.RBAC) []Ending {
	if p, ok := unpack(x.perRoute(name), new(httprbacv3.RBACPerRoute)); ok {
		if f = p.GetRbac(); f == nil {
			return nil // disabled for this route
		}
	}
	a := asked{x.walk, x.request}
	if f.GetMatcher() != nil || f.GetShadowMatcher() != nil {
		return x.unsupported(name, "the rules are a matcher, which is not followed")
	}
	if end := a.try(httpAccess, name, f.GetShadowRules(), f.GetShadowRulesStatPrefix()); end != nil {
		return end
	}
	details, end := a.enforce(httpAccess, name, f.GetRules(), f.GetRulesStatPrefix())
	if details == "" || end != nil {
		return end
	}
	e := x.reply(http.StatusForbidden, deniedBody, "access denied")
	e.Details = details
	return []Ending{e}
}

// connectionAccess evaluates a network RBAC filter. It returns nil if the connection continues and
// a Closed ending if it is denied. Envoy evaluates the rules at the first bytes, so a silent client
// is not denied. Matchers are unsupported.
func (w *walk) connectionAccess(name string, f *tcprbacv3.RBAC) []Ending {
	if f.GetMatcher() != nil || f.GetShadowMatcher() != nil {
		return w.unsupported(name, "the rules are a matcher, which is not followed")
	}
	if w.call.carries() == Silence {
		w.note(StageAccess, name, "judges the connection at the caller's first bytes, and lets it be until then")
		return nil
	}
	a := asked{w, new(Request)}
	if end := a.try(tcpAccess, name, f.GetShadowRules(), f.GetShadowRulesStatPrefix()); end != nil {
		return end
	}
	details, end := a.enforce(tcpAccess, name, f.GetRules(), "")
	if details == "" || end != nil {
		return end
	}
	return []Ending{{Share: 1, Kind: Closed, Reason: "access denied", Details: details}}
}

// enforce evaluates the rules in force and adds a step. details is empty unless the call is denied.
// end is not nil if a condition of the rules is unsupported.
func (a asked) enforce(filter, name string, rules *rbacv3.RBAC, prefix string) (details string, end []Ending) {
	if rules == nil {
		return "", nil
	}
	j, err := a.judge(rules)
	if err != nil {
		return "", a.unsupported(name, "%v", err)
	}
	if filter == httpAccess { // the network filter stores results of shadow rules only
		a.say(filter, j.result(prefix+"enforced_"))
	}
	rule, then := verdict(rules, j)
	by := policyObjects(rules, j.policy)
	if filter == tcpAccess && !j.allowed && a.asksOfRequests(by) {
		then += "; what the rule says of requests is left out, for this is a raw connection"
	}
	a.step(Step{Stage: StageAccess, Resource: name, Matched: j.why, Decided: rule + ": " + then, By: by, Missed: j.misses})
	if j.allowed {
		return "", nil
	}
	matched := "none"
	if j.policy != "" {
		matched = strings.ReplaceAll(j.policy, " ", "_")
	}
	return deniedDetails + "[" + matched + "]", nil
}

// verdict describes the result of the rules and the consequence for the call if they are enforced.
func verdict(rules *rbacv3.RBAC, j judgement) (rule, then string) {
	kind := map[rbacv3.RBAC_Action]string{rbacv3.RBAC_ALLOW: "ALLOW", rbacv3.RBAC_DENY: "DENY", rbacv3.RBAC_LOG: "AUDIT"}[rules.GetAction()]
	rule = "no " + kind + " rule matches"
	if j.policy != "" {
		rule = "a rule of " + kind + " matches"
	}
	switch {
	case !j.allowed:
		return rule, "refused"
	case rules.GetAction() == rbacv3.RBAC_LOG && j.policy != "":
		return rule, "noted, and goes on"
	default:
		return rule, "goes on"
	}
}

// try evaluates shadow rules, which never deny a call. It stores their result in the dynamic
// metadata for later filters and adds a step. It returns endings only if a condition is
// unsupported.
func (a asked) try(filter, name string, rules *rbacv3.RBAC, prefix string) []Ending {
	if rules == nil {
		return nil
	}
	j, err := a.judge(rules)
	if err != nil {
		return a.unsupported(name, "%v", err)
	}
	a.say(filter, j.result(prefix+"shadow_"))
	rule, then := verdict(rules, j)
	decided := "is only tried: " + rule + ": " + then
	switch provider, asks := strings.CutPrefix(prefix, authorizerPrefix); {
	case asks && j.policy == "":
		decided = "no CUSTOM rule matches: the authorizer " + strings.TrimSuffix(provider, "_") + " is not asked"
	case asks:
		decided = "a CUSTOM rule matches: the authorizer " + strings.TrimSuffix(provider, "_") + " is asked"
	case strings.HasPrefix(prefix, dryRunPrefix):
		decided = "dry run, decides nothing: " + rule + ", in force the call would be " + map[bool]string{true: "let through", false: "refused"}[j.allowed]
	}
	a.step(Step{Stage: StageAccess, Resource: name, Matched: j.why, Decided: decided, By: policyObjects(rules, j.policy), Missed: j.misses})
	return nil
}

// result returns the dynamic metadata that an RBAC filter emits for later filters and access logs:
// the engine result, and the policy that matched, if any.
func (j judgement) result(prefix string) *structpb.Struct {
	text := "denied"
	if j.allowed {
		text = "allowed"
	}
	s := &structpb.Struct{Fields: map[string]*structpb.Value{prefix + "engine_result": structpb.NewStringValue(text)}}
	if j.policy != "" {
		s.Fields[prefix+"effective_policy_id"] = structpb.NewStringValue(j.policy)
	}
	return s
}
