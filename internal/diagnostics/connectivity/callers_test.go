package connectivity

import (
	"fmt"
	"strings"
	"testing"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate"
)

// ask returns the answer to a question about the port 80 of cart.shop, one line for each caller.
func ask(t *testing.T, objects, method, path string) (*Callers, string) {
	t.Helper()
	m := New(newSnapshot(t, shop()+objects, ""))
	svc := m.Snapshot.Service(mesh.ServiceKey{Namespace: "shop", Host: "cart.shop.svc.cluster.local"})
	x := m.Callers(Question{Service: svc, Port: 80, Method: method, Path: path}, translate.NewTable(translate.Options{}).Generators)
	var lines []string
	for _, c := range x.Callers {
		line := fmt.Sprintf("%s/%s %s, %s", c.Namespace, c.Name, c.Verdict, c.Transport)
		if c.Scope != "" {
			line += ": " + c.Scope
		}
		for _, d := range c.Decisions {
			for _, o := range d.By {
				line += fmt.Sprintf(" <%s %s by %s %s>", d.Request, d.Verdict, o.Key, o.Rule)
			}
		}
		lines = append(lines, line)
	}
	return x, strings.Join(lines, "\n") + "\n"
}

func TestCallers(t *testing.T) {
	policy := func(name, spec string) string {
		return fmt.Sprintf("---\nkind: AuthorizationPolicy\nmetadata: {name: %s, namespace: shop}\nspec: {selector: {matchLabels: {app: cart}}, %s}\n", name, spec)
	}
	allowWeb := policy("web", "rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/web]}}]}]")
	for name, c := range map[string]struct{ objects, method, path, want string }{
		"no policy": {"", "", "", `old/batch allowed, plain text
pay/bank allowed, mutual TLS
shop/cart allowed, mutual TLS
shop/web allowed, mutual TLS
`},
		"an identity": {allowWeb, "", "", `old/batch denied, plain text <GET / denied by AuthorizationPolicy/shop/web >
pay/bank denied, mutual TLS <GET / denied by AuthorizationPolicy/shop/web >
shop/cart denied, mutual TLS <GET / denied by AuthorizationPolicy/shop/web >
shop/web allowed, mutual TLS <GET / allowed by AuthorizationPolicy/shop/web spec.rules[0]>
`},
		"a path of the rules": {
			policy("read", "rules: [{to: [{operation: {methods: [GET], paths: [/items/*]}}]}]") +
				policy("no-bank", "action: DENY, rules: [{from: [{source: {namespaces: [pay]}}]}]"), "", "",
			`old/batch partly, plain text <GET / denied by AuthorizationPolicy/shop/read > <GET /items/x allowed by AuthorizationPolicy/shop/read spec.rules[0]>
pay/bank denied, mutual TLS <GET / denied by AuthorizationPolicy/shop/no-bank spec.rules[0]>
shop/cart partly, mutual TLS <GET / denied by AuthorizationPolicy/shop/read > <GET /items/x allowed by AuthorizationPolicy/shop/read spec.rules[0]>
shop/web partly, mutual TLS <GET / denied by AuthorizationPolicy/shop/read > <GET /items/x allowed by AuthorizationPolicy/shop/read spec.rules[0]>
`,
		},
		"one request": {
			policy("read", "rules: [{to: [{operation: {methods: [GET], paths: [/items/*]}}]}]"), "DELETE", "/items/7",
			`old/batch denied, plain text <DELETE /items/7 denied by AuthorizationPolicy/shop/read >
pay/bank denied, mutual TLS <DELETE /items/7 denied by AuthorizationPolicy/shop/read >
shop/cart denied, mutual TLS <DELETE /items/7 denied by AuthorizationPolicy/shop/read >
shop/web denied, mutual TLS <DELETE /items/7 denied by AuthorizationPolicy/shop/read >
`,
		},
		"STRICT, a Sidecar and a rule for plain text": {
			`---
kind: PeerAuthentication
metadata: {name: strict, namespace: shop}
spec: {mtls: {mode: STRICT}}
---
kind: Sidecar
metadata: {name: own, namespace: pay}
spec: {egress: [{hosts: ["./*"]}]}
---
kind: DestinationRule
metadata: {name: plain, namespace: shop}
spec: {host: cart, workloadSelector: {matchLabels: {app: web}}, trafficPolicy: {tls: {mode: DISABLE}}}
`, "", "", `old/batch denied, plain text <GET / denied by PeerAuthentication/shop/strict >
pay/bank out of scope, plain text: Sidecar/pay/own does not import it
shop/cart allowed, mutual TLS
shop/web denied, plain text <GET / denied by PeerAuthentication/shop/strict >
`,
		},
		"an address": {
			policy("old", "rules: [{from: [{source: {ipBlocks: [10.1.0.4]}}]}]"), "", "",
			`old/batch allowed, plain text <GET / allowed by AuthorizationPolicy/shop/old spec.rules[0]>
pay/bank denied, mutual TLS <GET / denied by AuthorizationPolicy/shop/old >
shop/cart denied, mutual TLS <GET / denied by AuthorizationPolicy/shop/old >
shop/web denied, mutual TLS <GET / denied by AuthorizationPolicy/shop/old >
`,
		},
	} {
		if _, got := ask(t, c.objects, c.method, c.path); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}

// TestCallersThroughGateways checks two gateways, one of which has a route to the service.
func TestCallersThroughGateways(t *testing.T) {
	gateway := func(name string, n int) string {
		return fmt.Sprintf(`---
kind: Pod
metadata: {name: %[1]s, namespace: door, labels: {app: %[1]s, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: %[1]s}
status: {phase: Running, podIP: 10.1.1.%[2]d, podIPs: [{ip: 10.1.1.%[2]d}], conditions: [{type: Ready, status: "True"}]}
---
kind: Gateway
metadata: {name: %[1]s, namespace: door}
spec: {selector: {app: %[1]s}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`, name, n)
	}
	x, got := ask(t, gateway("front", 1)+gateway("back", 2)+`---
kind: VirtualService
metadata: {name: cart, namespace: shop}
spec: {hosts: [cart.example], gateways: [door/front], http: [{route: [{destination: {host: cart}}]}]}
`, "", "")
	for _, want := range []string{
		"door/back out of scope, plain text: no VirtualService of its Gateways routes to the service\n", "door/front allowed, mutual TLS\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if len(x.Servers) != 1 || x.Servers[0].Name != "cart" || len(x.Requests) != 1 {
		t.Errorf("the answer is %+v", x)
	}
}

// TestNamespacePatterns: each "*" in namespaces is a wildcard.
func TestNamespacePatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, namespace string
		want               bool
	}{
		{"team-*-dev", "team-a-dev", true},
		{"team-*-dev", "team-a-prod", false},
		{"team-*-dev", "team-dev", false},
		{"*dev*", "a-dev-b", true},
		{"*dev*", "prod", false},
		{"*", "prod", true},
		{"*", "", false},
		{"prod", "prod", true},
		{"prod*", "prod-2", true},
		{"*prod", "pre-prod", true},
	} {
		r := callerRule{source: &security.Source{Namespaces: []string{c.pattern}}}
		if got := r.matches(identity{namespace: c.namespace}); got != c.want {
			t.Errorf("%s matches %q: %v", c.pattern, c.namespace, got)
		}
	}
}
