package analysis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestPoliciesByIdentity: a plain-text caller has no identity, so it does not match a list of
// identities and matches each negated list. T-AUTHZ-PLAIN.
func TestPoliciesByIdentity(t *testing.T) {
	const strict = "\n---\nkind: PeerAuthentication\nmetadata: {name: all}\nspec: {mtls: {mode: STRICT}}"
	for name, tt := range map[string]struct {
		spec, beside string
		want         []string // fields
	}{
		"allow some":                     {"rules: [{from: [{source: {namespaces: [a]}}]}]", "", nil},
		"allow all but some":             {"rules: [{from: [{source: {notNamespaces: [a]}}]}]", "", []string{"+spec.rules[0].from[0].source.notNamespaces"}},
		"allow all but some principals":  {"rules: [{}, {from: [{source: {namespaces: [a]}}, {source: {notPrincipals: [a]}}]}]", "", []string{"+spec.rules[1].from[1].source.notPrincipals"}},
		"allow all but some, with any":   {`rules: [{from: [{source: {notNamespaces: [a], principals: ["*"]}}]}]`, "", nil},
		"allow all but some, any when":   {`rules: [{from: [{source: {notNamespaces: [a]}}], when: [{key: source.principal, values: ["*"]}]}]`, "", nil},
		"allow all but some, where":      {`rules: [{when: [{key: source.namespace, notValues: [a]}]}]`, "", []string{"+spec.rules[0].when[0].notValues"}},
		"allow some of which, but where": {`rules: [{from: [{source: {namespaces: [b]}}], when: [{key: source.principal, notValues: [a]}]}]`, "", nil},
		"allow all but addresses":        {`rules: [{from: [{source: {notIpBlocks: [10.0.0.1]}}], when: [{key: source.ip, notValues: [10.0.0.1]}]}]`, "", nil},
		"deny some":                      {"action: DENY, rules: [{from: [{source: {namespaces: [a]}}]}]", "", []string{"-spec.rules[0].from[0].source.namespaces"}},
		"deny some where":                {"action: DENY, rules: [{when: [{key: source.trustDomain, values: [a]}]}]", "", []string{"-spec.rules[0].when[0].values"}},
		"deny all but some":              {"action: DENY, rules: [{from: [{source: {notNamespaces: [a], notServiceAccounts: [x]}}]}]", "", nil},
		"deny paths":                     {"action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]", "", nil},
		"audit":                          {"action: AUDIT, rules: [{from: [{source: {namespaces: [a]}}]}]", "", nil},
		"strict":                         {"action: DENY, rules: [{from: [{source: {namespaces: [a]}}]}]", strict, nil},
		"strict, but for a port": {"action: DENY, selector: {matchLabels: {app: a}}, rules: [{from: [{source: {namespaces: [a]}}]}]",
			strict + "\n---\nkind: PeerAuthentication\nmetadata: {name: port}\nspec: {selector: {matchLabels: {app: a}}, portLevelMtls: {80: {mode: PERMISSIVE}}}",
			[]string{"-spec.rules[0].from[0].source.namespaces"}},
		"of a gateway": {"targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: g}], action: DENY, rules: [{from: [{source: {namespaces: [a]}}]}]", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := fixture.New(
				t,
				[]byte("kind: AuthorizationPolicy\nmetadata: {name: x}\nspec: {"+tt.spec+"}"+tt.beside),
				nil,
			)
			var got []string
			for _, p := range New(honoured()).Analyze(m.Snapshot()) {
				sign := "+" // it allows more than it states
				if strings.HasPrefix(p.Reason, "does not refuse") {
					sign = "-"
				}
				got = append(got, sign+p.Field)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPortsOfPolicies: a rule at a gateway with a port that only its Service has matches nothing.
// T-UPGRADE-PORT.
func TestPortsOfPolicies(t *testing.T) {
	const (
		gateway = "---\nkind: Gateway\nmetadata: {name: g}\nspec: {selector: {istio: edge}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}, {port: {number: 9000, name: tcp, protocol: TCP}, hosts: ['*']}]}\n"
		service = "---\nkind: Service\nmetadata: {name: edge}\nspec: {clusterIP: 10.96.0.7, selector: {istio: edge}, ports: [{name: http, port: 80, targetPort: 8080}]}\n"
		named   = "---\nkind: Service\nmetadata: {name: edge}\nspec: {clusterIP: 10.96.0.7, selector: {istio: edge}, ports: [{name: http, port: 80, targetPort: web}]}\n"
		more    = "---\nkind: Service\nmetadata: {name: edge}\nspec: {clusterIP: 10.96.0.7, selector: {istio: edge, app: x}, ports: [{name: http, port: 80, targetPort: 8080}]}\n"
		others  = "---\nkind: Service\nmetadata: {name: web}\nspec: {clusterIP: 10.96.0.8, selector: {istio: web}, ports: [{name: http, port: 80, targetPort: 8080}]}\n"
	)
	for name, tt := range map[string]struct {
		selector, ports, beside string
		want                    []string
	}{
		"its own port":                     {"istio: edge", `"8080", "9000"`, gateway + service, nil},
		"the Service's":                    {"istio: edge", `"8080", "80"`, gateway + service, []string{"spec.rules[0].to[0].operation.ports[1]"}},
		"nobody's":                         {"istio: edge, app: x", `"8443"`, gateway + service, []string{"spec.rules[0].to[0].operation.ports[0]"}},
		"no Service leads elsewhere":       {"istio: edge", `"80"`, gateway, nil},
		"a Service of others does":         {"istio: edge", `"80"`, gateway + others, nil},
		"a Service may, of some":           {"istio: edge", `"80", "8080"`, gateway + more, nil},
		"who knows where":                  {"istio: edge", `"1"`, gateway + named, nil},
		"not surely a gateway":             {"app: x", `"1"`, gateway + service, nil},
		"no gateway":                       {"istio: web", `"1"`, gateway + others, nil},
		"a Gateway that selects all of it": {"istio: edge", `"1"`, gateway + "---\nkind: Gateway\nmetadata: {name: all}\nspec: {servers: [{port: {number: 1, name: http, protocol: HTTP}, hosts: ['*']}]}\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := fixture.New(
				t,
				[]byte(
					"kind: AuthorizationPolicy\nmetadata: {name: x}\nspec: {action: DENY, selector: {matchLabels: {"+tt.selector+"}}, rules: [{to: [{operation: {ports: ["+tt.ports+"]}}]}]}\n"+tt.beside,
				),
				nil,
			)
			var got []string
			for _, p := range New(honoured()).Analyze(m.Snapshot()) {
				if p.Key.Name == "x" {
					got = append(got, p.Field)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
