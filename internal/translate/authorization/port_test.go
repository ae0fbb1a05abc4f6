package authorization

import (
	"maps"
	"slices"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestAt: a rule about one port is no matter of connections to others; what may hold for them is
// never left out.
func TestAt(t *testing.T) {
	const (
		denyHTTP  = `{action: DENY, rules: [{to: [{operation: {ports: ["8080"], paths: [/admin]}}]}]}`
		denyAny   = `{action: DENY, rules: [{to: [{operation: {ports: ["8080"]}}, {operation: {paths: [/admin]}}]}]}`
		denyNot   = `{action: DENY, rules: [{to: [{operation: {notPorts: ["8080"]}}]}]}`
		denyWhen  = `{action: DENY, rules: [{when: [{key: destination.port, values: ["8080"]}]}]}`
		allowHTTP = `{action: ALLOW, rules: [{to: [{operation: {ports: ["8080"]}}]}]}`
		audit     = `{action: AUDIT, rules: [{to: [{operation: {ports: ["8080"]}}]}]}`
		custom    = `{action: CUSTOM, provider: {name: none}, rules: [{to: [{operation: {ports: ["8080"]}}]}]}`
	)
	rule := []string{"ns[default]-policy[p]-rule[0]"}
	broken := []string{"istio-ext-authz-none-ns[default]-policy[p]-rule[0]-deny-due-to-bad-CUSTOM-action"}
	for _, c := range []struct {
		name, spec   string
		at80, at8080 [][]string // the names of the rules of each filter
	}{
		{"a rule of one port", denyHTTP, nil, [][]string{rule}},
		{"a rule of which a part is about any port", denyAny, [][]string{rule}, [][]string{rule}},
		{"a rule about all ports but one", denyNot, [][]string{rule}, [][]string{rule}},
		{"a condition", denyWhen, nil, [][]string{rule}},
		{"an ALLOW policy for another port denies everything here", allowHTTP, [][]string{nil}, [][]string{rule}},
		{"an AUDIT policy", audit, nil, [][]string{rule}},
		{"a CUSTOM policy whose provider does not answer", custom, nil, [][]string{broken}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := fixture.New(t, []byte("kind: AuthorizationPolicy\nmetadata: {name: p}\nspec: "+c.spec), nil)
			all := NewTable().For(m.View(fixture.Proxy(t, []byte("{}")))).TCP
			for port, want := range map[uint32][][]string{80: c.at80, 8080: c.at8080} {
				got := At(all, func(p uint32) bool { return p == port })
				if diff := cmp.Diff(want, ruleNames(t, got)); diff != "" {
					t.Errorf("at port %d (-want +got):\n%s", port, diff)
				}
			}
		})
	}
}

func ruleNames(t *testing.T, filters []*listenerv3.Filter) [][]string {
	t.Helper()
	var list [][]string
	for _, f := range filters {
		r := new(tcprbacv3.RBAC)
		if err := f.GetTypedConfig().UnmarshalTo(r); err != nil {
			t.Fatal(err)
		}
		list = append(list, slices.Sorted(maps.Keys(r.GetRules().GetPolicies())))
	}
	return list
}
