package connectivity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/translate"
)

// text returns the end in short: NAMESPACE/SERVICE, NAMESPACE/~WORKLOAD or NAMESPACE/*.
func (e End) text() string {
	switch {
	case e.Service != "":
		short, _, _ := strings.Cut(string(e.Service), ".")
		return e.Namespace + "/" + short
	case e.Workload != "":
		return e.Namespace + "/~" + e.Workload
	}
	return e.Namespace + "/*"
}

// callsOf returns the calls of a topology, one in each line.
func callsOf(x *Topology) string {
	var b strings.Builder
	for _, c := range x.Calls {
		arrow := " > "
		if c.Routed {
			arrow = " routed to "
		}
		fmt.Fprintf(&b, "%s%s%s %s\n", c.From.text(), arrow, c.To.text(), c.By)
	}
	return b.String()
}

func TestTopology(t *testing.T) {
	const (
		ownScope = "---\nkind: Sidecar\nmetadata: {name: own, namespace: pay}\nspec: {egress: [{hosts: [./*, shop/cart.shop.svc.cluster.local]}]}\n"
		client   = `---
kind: Pod
metadata: {name: client, namespace: shop, labels: {app: client, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: client}
status: {phase: Running, podIP: 10.1.9.9, podIPs: [{ip: 10.1.9.9}], conditions: [{type: Ready, status: "True"}]}
`
	)
	policy := func(name, app, spec string) string {
		return fmt.Sprintf("---\nkind: AuthorizationPolicy\nmetadata: {name: %s, namespace: shop}\nspec: {selector: {matchLabels: {app: %s}}, %s}\n", name, app, spec)
	}
	for name, c := range map[string]struct{ objects, want string }{
		"nothing is named":   {"", ""},
		"a Sidecar":          {ownScope, "pay/bank > shop/cart [Sidecar/pay/own]\n"},
		"a Sidecar for all":  {"---\nkind: Sidecar\nmetadata: {name: all, namespace: pay}\nspec: {egress: [{hosts: [\"*/*\"]}]}\n", ""},
		"a whole namespace":  {"---\nkind: Sidecar\nmetadata: {name: own, namespace: pay}\nspec: {egress: [{hosts: [./*, shop/*]}]}\n", "pay/bank > shop/* [Sidecar/pay/own]\n"},
		"an identity":        {policy("web", "cart", "rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/web]}}]}]"), "shop/web > shop/cart [AuthorizationPolicy/shop/web]\n"},
		"an account":         {policy("web", "cart", "rules: [{from: [{source: {serviceAccounts: [client]}}]}]"), "shop/~client > shop/cart [AuthorizationPolicy/shop/web]\n"},
		"a namespace":        {policy("own", "cart", "rules: [{from: [{source: {namespaces: [shop]}}]}]"), "shop/* > shop/cart [AuthorizationPolicy/shop/own]\n"},
		"a condition":        {policy("own", "cart", "rules: [{when: [{key: source.namespace, values: [p*]}]}]"), "pay/bank > shop/cart [AuthorizationPolicy/shop/own]\n"},
		"a path for all":     {policy("own", "cart", "rules: [{from: [{source: {namespaces: [shop]}}]}, {to: [{operation: {paths: [/]}}]}]"), ""},
		"nobody":             {policy("none", "cart", ""), ""},
		"scope and policy":   {ownScope + policy("web", "cart", "rules: [{from: [{source: {namespaces: [shop]}}]}]"), "shop/* > shop/cart [AuthorizationPolicy/shop/web]\n"},
		"policy, no scope":   {ownScope + policy("web", "web", "rules: [{from: [{source: {namespaces: [pay]}}]}]"), "pay/bank > shop/cart [Sidecar/pay/own]\n"},
		"scope, but refused": {ownScope + policy("refuse", "cart", "action: DENY, rules: [{from: [{source: {namespaces: [pay]}}]}]"), ""},
		"all but one":        {policy("not", "cart", "rules: [{from: [{source: {notNamespaces: [pay], principals: [\"*\"]}}]}]"), "shop/* > shop/cart [AuthorizationPolicy/shop/not]\n"},
		"a route": {
			"---\nkind: VirtualService\nmetadata: {name: moved, namespace: shop}\nspec: {hosts: [web], http: [{route: [{destination: {host: cart}}]}]}\n",
			"shop/web routed to shop/cart [VirtualService/shop/moved]\n",
		},
	} {
		m := New(newSnapshot(t, shop()+client+c.objects, ""))
		x := m.Topology()
		if d := cmp.Diff(c.want, callsOf(x)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if len(x.Nodes) != 5 {
			t.Errorf("%s: %d nodes", name, len(x.Nodes))
		}
		checkAgainstCallers(t, name, m, x)
	}
}

// TestRoutesOfOneHost: of several services with one host, a VirtualService routes the one of its own
// namespace, or all if there is none.
func TestRoutesOfOneHost(t *testing.T) {
	entry := func(namespace, host string) string {
		return fmt.Sprintf("---\nkind: ServiceEntry\nmetadata: {name: %[2]s, namespace: %[1]s}\n"+
			"spec: {hosts: [%[2]s.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}\n", namespace, host)
	}
	entries := entry("a", "api") + entry("b", "api") + entry("a", "proxy") + entry("b", "proxy")
	for namespace, want := range map[string]string{
		"a": "a/api routed to a/proxy [VirtualService/a/moved]\n",
		"b": "b/api routed to b/proxy [VirtualService/b/moved]\n",
		"c": "a/api routed to a/proxy [VirtualService/c/moved]\na/api routed to b/proxy [VirtualService/c/moved]\n" +
			"b/api routed to a/proxy [VirtualService/c/moved]\nb/api routed to b/proxy [VirtualService/c/moved]\n",
	} {
		vs := "---\nkind: VirtualService\nmetadata: {name: moved, namespace: " + namespace + "}\nspec: {hosts: [api.com], http: " +
			"[{match: [{uri: {prefix: /a}}], route: [{destination: {host: api.com}}]}, {route: [{destination: {host: proxy.com}}]}]}\n"
		if d := cmp.Diff(want, callsOf(New(newSnapshot(t, entries+vs, "")).Topology())); d != "" {
			t.Errorf("namespace %s (-want +got):\n%s", namespace, d)
		}
	}
}

// checkAgainstCallers compares a topology with the calls as they are evaluated: those to a restricted
// service, and of a limited caller, are in the topology if and only if some request is allowed.
func checkAgainstCallers(t *testing.T, name string, m *Mesh, x *Topology) {
	t.Helper()
	nodes := map[End]Node{}
	for _, n := range x.Nodes {
		nodes[n.End] = n
	}
	has := func(from, to End) bool {
		return slices.ContainsFunc(x.Calls, func(c Call) bool {
			return !c.Routed && (c.From == from || c.From == End{Namespace: from.Namespace}) && (c.To == to || c.To == End{Namespace: to.Namespace} && !nodes[to].Restricted)
		})
	}
	generators := translate.NewTable(translate.Options{}).Generators
	for _, svc := range m.Snapshot.Services() {
		to := End{Namespace: svc.Namespace, Service: svc.Host}
		for _, c := range m.Callers(Question{Service: svc, Port: 80}, generators).Callers {
			from := End{Namespace: c.Namespace, Workload: c.Name}
			if len(c.Served) > 0 {
				from = End{Namespace: c.Namespace, Service: m.Snapshot.Service(c.Served[0].Service).Host}
			}
			if from == to || !nodes[from].Limited && !nodes[to].Restricted {
				continue
			}
			possible := c.Verdict == Allowed || c.Verdict == Partly
			if possible != has(from, to) {
				t.Errorf("%s: %s calls %s: evaluated as %s, but in the topology: %t", name, from.text(), to.text(), c.Verdict, !possible)
			}
		}
	}
}

// TestLargeTopology shows that the calls of namespaces are not listed for each service.
func TestLargeTopology(t *testing.T) {
	m := New(largeMesh(t))
	x := m.Topology()
	if len(x.Nodes) < 500 || len(x.Calls) > len(x.Nodes) || len(x.Calls) < len(x.Nodes)/4 {
		t.Errorf("%d nodes, %d calls", len(x.Nodes), len(x.Calls))
	}
}
