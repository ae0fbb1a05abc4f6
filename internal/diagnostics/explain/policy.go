package explain

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// judgement is the result of RBAC rules for a call.
type judgement struct {
	allowed bool
	// policy is the name of the first policy that matches, in alphabetical order; "" if none does.
	policy string
	// why describes the properties of the call that matched. misses describe policies that do not
	// match, nearest first, with the reasons.
	why    string
	misses []string
}

// maxMisses limits the number of reported near misses.
const maxMisses = 3

// evaluateRules evaluates RBAC rules: the first policy that matches, by name, decides. It allows
// without a match unless the action is ALLOW, and with one unless the action is DENY. Without a
// match, misses has the maxMisses closest policies and the number of the others. The error reports
// an unsupported condition.
func (a rbacCall) evaluateRules(rules *rbacv3.RBAC) (judgement, error) {
	var misses []finding
	for _, name := range slices.Sorted(maps.Keys(rules.GetPolicies())) {
		f, err := a.evalPolicy(rules.GetPolicies()[name])
		switch {
		case err != nil:
			return judgement{}, fmt.Errorf("%s: %w", policyText(name), err)
		case f.ok:
			if f.why == alwaysHolds().why {
				f.why = ""
			}
			return judgement{allowed: rules.GetAction() != rbacv3.RBAC_DENY, policy: name, why: f.why}, nil
		}
		f.why = policyText(name) + ": " + f.why
		misses = append(misses, f)
	}
	slices.SortStableFunc(misses, func(f, g finding) int { return f.miss - g.miss })
	j := judgement{allowed: rules.GetAction() != rbacv3.RBAC_ALLOW}
	for _, f := range misses[:min(maxMisses, len(misses))] {
		j.misses = append(j.misses, f.why)
	}
	if n := len(misses) - maxMisses; n > 0 {
		j.misses = append(j.misses, fmt.Sprintf("%d more with larger differences", n))
	}
	return j, nil
}

// evalPolicy reports whether one of the principals and one of the permissions of a policy match the
// call, as a finding. CEL conditions are unsupported.
func (a rbacCall) evalPolicy(p *rbacv3.Policy) (finding, error) {
	if p.GetCondition() != nil || p.GetCheckedCondition() != nil {
		return finding{}, errors.New("CEL conditions are not supported")
	}
	who := func() (finding, error) { return anyOf(p.GetPrincipals(), a.evalPrincipal) }
	what := func() (finding, error) { return anyOf(p.GetPermissions(), a.evalPermission) }
	return allOf([]func() (finding, error){who, what}, func(f func() (finding, error)) (finding, error) { return f() })
}

// policyName matches Istio's name of an Envoy policy for a rule of an AuthorizationPolicy. The name
// has a prefix if the action is CUSTOM, and a suffix if the CUSTOM provider cannot be used.
var policyName = regexp.MustCompile(
	`^(istio-ext-authz-.*)?ns\[(.+)\]-policy\[(.+)\]-rule\[(\d+)\](?:-deny-due-to-bad-CUSTOM-action)?$`)

// PolicyRule is the rule of an AuthorizationPolicy that a policy in an RBAC filter was made from.
type PolicyRule struct {
	Namespace, Name string // of the AuthorizationPolicy
	Index           string // in spec.rules
	Custom          bool   // the action is CUSTOM
}

// ParsePolicyName returns the rule that an Envoy policy was made from, which its name contains. ok
// is false if the name has another format.
func ParsePolicyName(name string) (rule PolicyRule, ok bool) {
	m := policyName.FindStringSubmatch(name)
	if m == nil {
		return PolicyRule{}, false
	}
	return PolicyRule{Namespace: m[2], Name: m[3], Index: m[4], Custom: m[1] != ""}, true
}

// policyObject returns the AuthorizationPolicy rule that produced the policy of a name. The second
// result is false if the name has another format.
func policyObject(name string) (Object, bool) {
	r, ok := ParsePolicyName(name)
	if !ok {
		return Object{}, false
	}
	return Object{
		config.Key{Kind: api.AuthorizationPolicy, Namespace: r.Namespace, Name: r.Name},
		"spec.rules[" + r.Index + "]",
	}, true
}

// policyText returns the object and rule of a policy's name, or the name itself if it has another
// format.
func policyText(name string) string {
	if o, ok := policyObject(name); ok {
		return o.String()
	}
	return name
}

// policyObjects returns the AuthorizationPolicy rule of the named RBAC policy, or nil if the name
// has another form. If name is empty, it returns the AuthorizationPolicies of all policies, sorted,
// without rules and duplicates. Names that are not of rules of an AuthorizationPolicy are skipped.
func policyObjects(rules *rbacv3.RBAC, name string) []Object {
	if name != "" {
		if o, ok := policyObject(name); ok {
			return []Object{o}
		}
		return nil
	}
	var list []Object
	for _, n := range slices.Sorted(maps.Keys(rules.GetPolicies())) {
		if o, ok := policyObject(n); ok && !slices.Contains(list, Object{Key: o.Key}) {
			list = append(list, Object{Key: o.Key})
		}
	}
	slices.SortFunc(list, func(a, b Object) int { return a.Key.Compare(b.Key) })
	return list
}
