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

// evaluateRBAC evaluates the shadow rules and the rules of an HTTP RBAC filter and adds steps. It
// returns nil if the request continues, and a 403 ending (localReply) if it is denied. A per-route
// configuration replaces the filter's; without rules it disables the filter. A configuration with
// matchers, and an unsupported condition, return an Unknown ending.
func (x *exchange) evaluateRBAC(name string, f *httprbacv3.RBAC) []Ending {
	if p, ok := unpackAny(x.perRoute(name), new(httprbacv3.RBACPerRoute)); ok {
		if f = p.GetRbac(); f == nil {
			return nil // disabled for this route
		}
	}
	a := rbacCall{x.walk, x.request}
	if f.GetMatcher() != nil || f.GetShadowMatcher() != nil {
		return x.endUnsupported(name, "the rules are a matcher, which is not supported")
	}
	if end := a.tryShadowRules(httpAccess, name, f.GetShadowRules(), f.GetShadowRulesStatPrefix()); end != nil {
		return end
	}
	details, end := a.enforceRules(httpAccess, name, f.GetRules(), f.GetRulesStatPrefix())
	if details == "" || end != nil {
		return end
	}
	e := x.localReply(http.StatusForbidden, deniedBody, "access denied")
	e.Details = details
	return []Ending{e}
}

// connectionAccess evaluates the shadow rules and the rules of a network RBAC filter and adds
// steps. It returns nil if the connection continues, and a Closed ending if it is denied. Envoy
// evaluates the rules at the first bytes, so a silent client is not denied. A configuration with
// matchers, and an unsupported condition, return an Unknown ending.
func (w *walk) connectionAccess(name string, f *tcprbacv3.RBAC) []Ending {
	if f.GetMatcher() != nil || f.GetShadowMatcher() != nil {
		return w.endUnsupported(name, "the rules are a matcher, which is not supported")
	}
	if w.call.carriedProtocol() == Silence {
		w.addNote(StageAccess, name, "evaluates the connection at the caller's first bytes, and allows it until then")
		return nil
	}
	a := rbacCall{w, new(Request)}
	if end := a.tryShadowRules(tcpAccess, name, f.GetShadowRules(), f.GetShadowRulesStatPrefix()); end != nil {
		return end
	}
	details, end := a.enforceRules(tcpAccess, name, f.GetRules(), "")
	if details == "" || end != nil {
		return end
	}
	return []Ending{{Share: 1, Kind: Closed, Reason: "access denied", Details: details}}
}

// enforceRules evaluates the rules in force and adds a step; nil rules allow the call without one.
// details names the policy that denies the call, or "none", and is empty if the call is allowed.
// end is not nil if a condition of the rules is unsupported. For HTTP it also stores
// resultMetadata(prefix+"enforced_") in the metadata of filter.
func (a rbacCall) enforceRules(filter, name string, rules *rbacv3.RBAC, prefix string) (details string, end []Ending) {
	if rules == nil {
		return "", nil
	}
	j, err := a.evaluateRules(rules)
	if err != nil {
		return "", a.endUnsupported(name, "%v", err)
	}
	if filter == httpAccess { // the network filter stores results of shadow rules only
		a.mergeMetadata(filter, j.resultMetadata(prefix+"enforced_"))
	}
	rule, then := describeVerdict(rules, j)
	by := policyObjects(rules, j.policy)
	if filter == tcpAccess && !j.allowed && a.asksOfRequests(by) {
		then += "; conditions on HTTP requests are ignored, because this is a TCP connection"
	}
	a.addStep(
		Step{Stage: StageAccess, Resource: name, Matched: j.why, Decided: rule + ": " + then, By: by, Missed: j.misses},
	)
	if j.allowed {
		return "", nil
	}
	matched := "none"
	if j.policy != "" {
		matched = strings.ReplaceAll(j.policy, " ", "_")
	}
	return deniedDetails + "[" + matched + "]", nil
}

// describeVerdict describes the result of the rules, and the consequence for the call if they are
// enforced: denied, logged or continues. AUDIT rules never deny. rule names the action (ALLOW,
// DENY, AUDIT) and whether a rule matches.
func describeVerdict(rules *rbacv3.RBAC, j judgement) (rule, then string) {
	kind := map[rbacv3.RBAC_Action]string{rbacv3.RBAC_ALLOW: "ALLOW", rbacv3.RBAC_DENY: "DENY",
		rbacv3.RBAC_LOG: "AUDIT"}[rules.GetAction()]
	rule = "no " + kind + " rule matches"
	if j.policy != "" {
		rule = "a rule of " + kind + " matches"
	}
	switch {
	case !j.allowed:
		return rule, "denied"
	case rules.GetAction() == rbacv3.RBAC_LOG && j.policy != "":
		return rule, "logged (AUDIT), continues"
	default:
		return rule, "continues"
	}
}

// tryShadowRules evaluates the shadow rules of an RBAC filter, which never deny a call, and adds a
// step. It stores their result in the dynamic metadata of filter for later filters. name is the
// name of the filter in the step. The prefix of the metadata distinguishes CUSTOM rules, which
// decide whether an authorizer is called, from dry runs. It returns an Unknown ending if a
// condition is unsupported, and otherwise nil. It does nothing if rules is nil.
func (a rbacCall) tryShadowRules(filter, name string, rules *rbacv3.RBAC, prefix string) []Ending {
	if rules == nil {
		return nil
	}
	j, err := a.evaluateRules(rules)
	if err != nil {
		return a.endUnsupported(name, "%v", err)
	}
	a.mergeMetadata(filter, j.resultMetadata(prefix+"shadow_"))
	rule, then := describeVerdict(rules, j)
	decided := "shadow rules, not enforced: " + rule + ": " + then
	switch provider, asks := strings.CutPrefix(prefix, authorizerPrefix); {
	case asks && j.policy == "":
		decided = "no CUSTOM rule matches: the authorizer " + strings.TrimSuffix(provider, "_") + " is not called"
	case asks:
		decided = "a CUSTOM rule matches: the authorizer " + strings.TrimSuffix(provider, "_") + " is called"
	case strings.HasPrefix(prefix, dryRunPrefix):
		decided = "dry run, not enforced: " + rule + ", if enforced the call would be " +
			map[bool]string{true: "allowed", false: "denied"}[j.allowed]
	}
	a.addStep(
		Step{
			Stage:    StageAccess,
			Resource: name,
			Matched:  j.why,
			Decided:  decided,
			By:       policyObjects(rules, j.policy),
			Missed:   j.misses,
		},
	)
	return nil
}

// resultMetadata returns the dynamic metadata that an RBAC filter emits for later filters and
// access logs: prefix+"engine_result", and prefix+"effective_policy_id" if a policy matched. prefix
// includes "shadow_" or "enforced_".
func (j judgement) resultMetadata(prefix string) *structpb.Struct {
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
