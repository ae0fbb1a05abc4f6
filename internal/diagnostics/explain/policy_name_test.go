package explain

import "testing"

// TestParsePolicyName checks the names that istiod and this control plane use in RBAC filters.
func TestParsePolicyName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]PolicyRule{
		"ns[shop]-policy[web]-rule[0]":                             {Namespace: "shop", Name: "web", Index: "0"},
		"ns[shop]-policy[web.v1]-rule[12]":                         {Namespace: "shop", Name: "web.v1", Index: "12"},
		"istio-ext-authz-my-provider-ns[shop]-policy[web]-rule[1]": {Namespace: "shop", Name: "web", Index: "1", Custom: true},
		"istio-ext-authz-p-ns[shop]-policy[web]-rule[1]-deny-due-to-bad-CUSTOM-action": {
			Namespace: "shop", Name: "web", Index: "1", Custom: true,
		},
		"ns[]-policy[web]-rule[0]":             {},
		"ns[shop]-policy[web]-rule[]":          {},
		"ns[shop]-policy[web]-rule[0]-suffix":  {},
		"prefix-ns[shop]-policy[web]-rule[0]":  {},
		"rbac_access_denied_matched_policy[x]": {},
	} {
		got, ok := ParsePolicyName(name)
		if got != want || ok != (want != PolicyRule{}) {
			t.Errorf("%s: %+v, %v", name, got, ok)
		}
	}
}
