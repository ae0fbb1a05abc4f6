package reference

import (
	"fmt"
	"net/netip"
	"slices"

	security "istio.io/api/security/v1beta1"
)

// RootNamespace is where policies apply to the workloads of all namespaces.
const RootNamespace = "istio-system"

// Policy is an AuthorizationPolicy.
type Policy struct {
	Namespace string
	Name      string
	// DryRun is the annotation istio.io/dry-run.
	DryRun bool
	Spec   *security.AuthorizationPolicy
}

// Workload is the destination of a call.
type Workload struct {
	Namespace string
	Labels    map[string]string
	// TrustDomains are the mesh's trust domain and its aliases.
	TrustDomains []string
	// Normalization is meshConfig.pathNormalization: NONE, BASE, MERGE_SLASHES or
	// DECODE_AND_MERGE_SLASHES.
	Normalization string
}

// Call is a request, or a raw connection if HTTP is false.
type Call struct {
	HTTP bool
	// Principal is the caller's identity, "TRUSTDOMAIN/ns/NAMESPACE/sa/ACCOUNT"; "" in plain text.
	Principal     string
	SourceIP      netip.Addr
	RemoteIP      netip.Addr
	DestinationIP netip.Addr
	Port          uint16
	SNI           string

	Method  string
	Path    string
	Host    string
	Headers map[string][]string // by lower-case name
	// Claims are the claims of the validated token, or nil without a token.
	Claims map[string]any
}

// Verdict is the outcome of a call.
type Verdict struct {
	Allowed bool
	// Deny and Allow are the enforced rules that match, "NAMESPACE/NAME[RULE]".
	Deny, Allow []string
	// Audit are the AUDIT rules that match. They do not affect the verdict.
	Audit []string
	// HasAllow reports whether an enforced ALLOW policy applies to the workload.
	HasAllow bool
	// DryRunDeny and DryRunAllow are the results of the policies that are not enforced: "allowed",
	// "denied", or "" without such policies.
	DryRunDeny, DryRunAllow string
}

// Evaluate returns the verdict of the policies that apply to w. CUSTOM policies are not evaluated.
//
// A call is denied if a DENY rule matches. Otherwise it is allowed if no ALLOW policy applies, or
// if an ALLOW rule matches.
func Evaluate(policies []Policy, w Workload, c Call) Verdict {
	var v Verdict
	dryDeny, dryAllow := outcomes{}, outcomes{}
	for _, p := range policies {
		if !appliesTo(p, w) {
			continue
		}
		matched := matchingRules(p, w, c)
		switch action := p.Spec.GetAction(); {
		case action == security.AuthorizationPolicy_DENY && p.DryRun:
			dryDeny.addMatched(matched)
		case action == security.AuthorizationPolicy_ALLOW && p.DryRun:
			dryAllow.addMatched(matched)
		case action == security.AuthorizationPolicy_AUDIT:
			v.Audit = append(v.Audit, matched...)
		case action == security.AuthorizationPolicy_DENY:
			v.Deny = append(v.Deny, matched...)
		case action == security.AuthorizationPolicy_ALLOW:
			v.HasAllow = true
			v.Allow = append(v.Allow, matched...)
		}
	}
	v.Allowed = len(v.Deny) == 0 && (!v.HasAllow || len(v.Allow) > 0)
	v.DryRunDeny = dryDeny.resultFor("denied", "allowed")
	v.DryRunAllow = dryAllow.resultFor("allowed", "denied")
	return v
}

// outcomes are the results of the dry-run policies of one action.
type outcomes struct{ any, matched bool }

func (o *outcomes) addMatched(matched []string) {
	o.any, o.matched = true, o.matched || len(matched) > 0
}

func (o *outcomes) resultFor(matched, unmatched string) string {
	switch {
	case !o.any:
		return ""
	case o.matched:
		return matched
	default:
		return unmatched
	}
}

// appliesTo reports whether the workload is in the policy's scope: its namespace, or any if that is
// the root namespace, and all labels of the selector.
func appliesTo(p Policy, w Workload) bool {
	if p.Namespace != RootNamespace && p.Namespace != w.Namespace {
		return false
	}
	for name, value := range p.Spec.GetSelector().GetMatchLabels() {
		if w.Labels[name] != value {
			return false
		}
	}
	return true
}

// matchingRules returns the rules of p that match the call.
func matchingRules(p Policy, w Workload, c Call) []string {
	var matched []string
	for i, r := range p.Spec.GetRules() {
		m := matcher{
			policy:     p,
			workload:   w,
			call:       c,
			ignoreHTTP: !c.HTTP && p.Spec.GetAction() == security.AuthorizationPolicy_DENY,
		}
		if !c.HTTP && !m.ignoreHTTP && hasHTTPFields(r) {
			continue // "Authorization for TCP traffic": such an ALLOW rule is invalid for TCP and never matches
		}
		if m.matchesRule(r) {
			matched = append(matched, fmt.Sprintf("%s/%s[%d]", p.Namespace, p.Name, i))
		}
	}
	return matched
}

// hasHTTPFields reports whether a rule has a field that only requests have.
func hasHTTPFields(r *security.Rule) bool {
	for _, from := range r.GetFrom() {
		if s := from.GetSource(); len(s.GetRequestPrincipals())+len(s.GetNotRequestPrincipals()) > 0 {
			return true
		}
	}
	for _, to := range r.GetTo() {
		o := to.GetOperation()
		if len(o.GetHosts())+len(o.GetNotHosts())+len(o.GetMethods())+len(o.GetNotMethods())+
			len(o.GetPaths())+len(o.GetNotPaths()) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(r.GetWhen(), func(w *security.Condition) bool { return onlyHTTP(w.GetKey()) })
}
