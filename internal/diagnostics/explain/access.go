package explain

import (
	"net/http"
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"google.golang.org/protobuf/types/known/structpb"
)

// Names under which filters of access say what rules that are only tried make of a call.
const (
	httpAccess = "envoy.filters.http.rbac"
	tcpAccess  = "envoy.filters.network.rbac"
	// The texts that Envoy gives callers, and access logs (RESPONSE_CODE_DETAILS, CONNECTION_TERMINATION_DETAILS).
	deniedBody    = "RBAC: access denied"
	deniedDetails = "rbac_access_denied_matched_policy"
	// What the names of what tried rules find begin with: those of policies that are only tried, and those that say which calls
	// an external authorizer is asked about.
	dryRunPrefix     = "istio_dry_run_"
	authorizerPrefix = "istio_ext_authz_"
)

// access lets requests pass, or answers them, by the rules of a filter. It gives nil where the request goes on.
func (x *exchange) access(name string, f *httprbacv3.RBAC) []Ending {
	if p, ok := unpack(x.perRoute(name), new(httprbacv3.RBACPerRoute)); ok {
		if f = p.GetRbac(); f == nil {
			return nil // off for this route
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

// connectionAccess is access for raw connections, which are judged when their first bytes come.
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

// enforce judges a call by rules in force. details are not "" if it is refused; endings not nil if that cannot be followed.
func (a asked) enforce(filter, name string, rules *rbacv3.RBAC, prefix string) (details string, end []Ending) {
	if rules == nil {
		return "", nil
	}
	j, err := a.judge(rules)
	if err != nil {
		return "", a.unsupported(name, "%v", err)
	}
	if filter == httpAccess { // the filter of connections says it of tried rules alone
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

// verdict says what rules decide, and what becomes of the call if they are in force.
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

// try judges a call by rules that are not in force, and notes what they find for the filters that come after.
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

// result is what a filter says of a judgement to those that come after it, and to access logs.
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
