package authorization

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// form is a form of a caller's name in a policy, and the identities that it matches ("" without
// mutual TLS).
type form struct {
	source string
	means  func(identity string) bool
}

// literal are forms that contain a name literally. The names contain all characters that an
// identity may have and that are special in a regular expression: CVE-2026-39350 was a dot.
func literal() []form {
	part := func(identity string, n int) string { // 0: the domain, 1: the namespace, 2: the account
		parts := strings.Split(strings.TrimPrefix(identity, "spiffe://"), "/")
		if len(parts) != 5 {
			return ""
		}
		return parts[2*n]
	}
	is := func(n int, text string) func(string) bool { return func(id string) bool { return part(id, n) == text } }
	whole := func(ok func(string) bool) func(string) bool {
		return func(id string) bool { return id != "" && ok(strings.TrimPrefix(id, "spiffe://")) }
	}
	var list []form
	for _, ns := range []string{"a", "a.b"} {
		for _, account := range []string{"web", "we.b"} {
			principal := "cluster.local/ns/" + ns + "/sa/" + account
			list = append(list,
				form{"principals: [" + principal + "]", whole(func(id string) bool { return id == principal })},
				form{`principals: ["*/ns/` + ns + "/sa/" + account + `"]`, whole(func(id string) bool { return strings.HasSuffix(id, "/ns/"+ns+"/sa/"+account) })},
				form{"serviceAccounts: [" + ns + "/" + account + "]", func(id string) bool { return part(id, 1) == ns && part(id, 2) == account }},
			)
		}
		list = append(list,
			form{"principals: [cluster.local/ns/" + ns + "/*]", whole(func(id string) bool { return strings.HasPrefix(id, "cluster.local/ns/"+ns+"/") })},
			form{"namespaces: [" + ns + "]", is(1, ns)},
			form{`namespaces: ["` + ns + `*"]`, func(id string) bool { return id != "" && strings.HasPrefix(part(id, 1), ns) }},
			form{`namespaces: ["*` + ns + `"]`, func(id string) bool { return id != "" && strings.HasSuffix(part(id, 1), ns) }},
			form{"notNamespaces: [" + ns + "]", func(id string) bool { return part(id, 1) != ns }},
		)
	}
	return append(list,
		form{`principals: ["*"]`, whole(func(string) bool { return true })},
		form{`notPrincipals: ["*"]`, func(id string) bool { return id == "" }},
		form{`principals: ["*/sa/we.b"]`, whole(func(id string) bool { return strings.HasSuffix(id, "/sa/we.b") })},
		form{`notPrincipals: ["*/sa/we.b"]`, func(id string) bool { return !strings.HasSuffix(id, "/sa/we.b") }},
		form{"notServiceAccounts: [a.b/we.b]", func(id string) bool { return part(id, 1) != "a.b" || part(id, 2) != "we.b" }},
		form{"serviceAccounts: [we.b]", func(id string) bool { return part(id, 1) == "shop" && part(id, 2) == "we.b" }},
		form{"trustDomains: [other.domain]", is(0, "other.domain")},
		form{`trustDomains: ["other*"]`, func(id string) bool { return id != "" && strings.HasPrefix(part(id, 0), "other") }},
		form{"notTrustDomains: [other.domain]", func(id string) bool { return part(id, 0) != "other.domain" }},
	)
}

// callers are the identities with which forms are tested: each name, and identities that a careless
// pattern of it would match.
func callers() []string {
	list := []string{""}
	for _, ns := range []string{"a", "a.b", "a-b", "aXb", "a.bc", "xa.b", "shop"} {
		for _, account := range []string{"web", "we.b", "weXb", "web-1", "web-12"} {
			list = append(list, "cluster.local/ns/"+ns+"/sa/"+account)
		}
	}
	return append(list, "other.domain/ns/a.b/sa/we.b", "otherXdomain/ns/a.b/sa/we.b", "other.domain.evil/ns/a.b/sa/we.b", "x.cluster.local/ns/a.b/sa/we.b")
}

// The first ports of forms. They are below the range of serving.FreePort, whose ports other tests may
// bind at all addresses.
const httpPorts, tcpPorts, edgePorts = 10000, 11000, 12000

// formsScene has for each form a port of requests, a port of bytes and a port of a gateway, once of an ALLOW and once of a DENY.
func formsScene(t *testing.T, own string, forms []form) *scene {
	t.Helper()
	s := &scene{name: "forms"}
	var objects []string
	for i, action := range []string{"ALLOW", "DENY"} {
		name := strings.ToLower(action)
		address := func(n int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("%s41.%d", own, n)) }
		s.workloads = append(s.workloads,
			&workload{Name: name, Namespace: "shop", Labels: map[string]string{"app": name}, Address: address(i + 1)},
			&workload{Name: "edge-" + name, Namespace: "shop", Labels: map[string]string{"app": name, "istio": "edge-" + name}, Address: address(i + 11), Gateway: true},
		)
		var ports, servers, rules []string
		for n, f := range forms {
			ports = append(ports, fmt.Sprintf("{name: http-%d, port: %d}, {name: tcp-%d, port: %d}", n, httpPorts+n, n, tcpPorts+n))
			servers = append(servers, fmt.Sprintf("{port: {number: %d, name: https-%d, protocol: HTTPS}, hosts: [edge.example.com], tls: {mode: ISTIO_MUTUAL}}", edgePorts+n, n))
			rules = append(rules, fmt.Sprintf(`{to: [{operation: {ports: ["%d", "%d", "%d"]}}], from: [{source: {%s}}]}`, httpPorts+n, tcpPorts+n, edgePorts+n, f.source))
		}
		objects = append(objects,
			fmt.Sprintf("kind: Service\nmetadata: {name: %s, namespace: shop}\nspec: {clusterIP: 10.96.41.%d, selector: {app: %[1]s}, ports: [%[3]s]}\n", name, i+1, strings.Join(ports, ", ")),
			fmt.Sprintf("kind: Gateway\napiVersion: networking.istio.io/v1\nmetadata: {name: edge-%s, namespace: shop}\nspec: {selector: {istio: edge-%[1]s}, servers: [%[2]s]}\n", name, strings.Join(servers, ", ")),
			fmt.Sprintf("kind: VirtualService\nmetadata: {name: edge-%s, namespace: shop}\nspec: {hosts: [\"*\"], gateways: [edge-%[1]s], http: [{directResponse: {status: 200}}]}\n", name),
			fmt.Sprintf("kind: AuthorizationPolicy\nmetadata: {name: %s, namespace: shop}\nspec: {action: %[2]s, selector: {matchLabels: {app: %[1]s}}, rules: [%[3]s]}\n", name, action, strings.Join(rules, ", ")),
		)
	}
	s.objects = []byte(strings.Join(objects, "---\n"))
	return s
}

// TestFormsOfCallers: each form of a caller's name has the same meaning for requests, for raw
// connections and at gateways, in a real Envoy: it matches literally. T-AUTHZ-TCP, T-AUTHZ-QUOTE.
func TestFormsOfCallers(t *testing.T) {
	forms, authority, tokens := literal(), newSecrets(), newTokens(t)
	s := formsScene(t, ownAddresses(t), forms)
	add := func(c *testCase) { c.scene, c.Name = s, fmt.Sprint(len(s.cases)); s.cases = append(s.cases, c) }
	want := map[*testCase]string{}
	for n, f := range forms {
		for k, caller := range callers() {
			id := caller
			if id != "" {
				id = "spiffe://" + id
			}
			for _, w := range []string{"allow", "deny"} {
				verdict := map[bool]string{true: "allow", false: "deny"}[f.means(id) == (w == "allow")]
				atGateways := verdict // which take callers of any mesh that their roots vouch for, as Istio's
				if id != "" && !strings.HasPrefix(caller, "cluster.local/") {
					verdict = "deny" // the handshake fails
				}
				if (n+k)%5 != 0 && id != "" { // connections are dear
					continue
				}
				add(&testCase{To: fmt.Sprintf("%s:%d", w, tcpPorts+n), As: caller})
				want[s.cases[len(s.cases)-1]] = verdict
				if (n+k)%10 != 0 && id != "" {
					continue
				}
				add(&testCase{To: fmt.Sprintf("%s:%d", w, httpPorts+n), As: caller, Call: "GET /"})
				want[s.cases[len(s.cases)-1]] = verdict
				if id == "" {
					continue // no handshake without a certificate
				}
				add(&testCase{To: fmt.Sprintf("edge-%s:%d", w, edgePorts+n), As: caller, SNI: "edge.example.com", Host: "edge.example.com", Call: "GET /"})
				want[s.cases[len(s.cases)-1]] = atGateways
			}
		}
	}
	begin := time.Now()
	start(t, []*scene{s}, authority, tokens)
	t.Logf("the Envoy took %s to start", time.Since(begin).Round(time.Millisecond))
	said := map[string]int{}
	for _, c := range s.cases {
		o := c.do(t.Context(), t, authority, tokens)
		got := o.verdict()
		if got == "closed" {
			got = "deny" // raw connections and untrusted callers can only be refused in this way
		}
		_, port := c.target(t)
		said[fmt.Sprint(port/1000*1000, " ", got)]++
		if f := forms[port%1000]; got != want[c] {
			t.Errorf("%s from %q at %s: %s, want %s", f.source, c.As, c.To, o, want[c])
		}
	}
	t.Log(len(s.cases), "calls:", said)
	if got := slices.Sorted(maps.Keys(said)); !slices.Equal(got, []string{"10000 allow", "10000 deny", "11000 allow", "11000 deny", "12000 allow", "12000 deny"}) {
		t.Errorf("only the verdicts %v occurred: the test is not effective", got)
	}
}
