package connectivity

import (
	"fmt"
	"strings"
	"testing"
)

// modes returns the workloads of a mesh in one line each, with the calls in plain text to them.
func modes(m *Mesh) string {
	calls, _ := m.PlainTextCalls()
	var lines []string
	for _, w := range m.Workloads {
		line := fmt.Sprintf("%s/%s %s x%d", w.Namespace, w.Name, w.Role, w.Instances)
		if w.Role == Sidecar {
			line += " " + string(w.Modes.Text())
			list, refused := w.CallsTo(calls)
			for i, c := range list {
				line += fmt.Sprintf(" <%s:%d%s from %s by %v refused %v>", c.Service.Host, c.Port, c.Subset, strings.Join(c.Namespaces, ","), c.Rules, refused[i])
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestModesAndPlainTextCalls(t *testing.T) {
	const strict = "---\nkind: PeerAuthentication\nmetadata: {name: strict, namespace: shop}\nspec: {mtls: {mode: STRICT}}\n"
	rule := func(namespace, host, spec string) string {
		return fmt.Sprintf("---\nkind: DestinationRule\nmetadata: {name: r, namespace: %s}\nspec: {host: %q, %s}\n", namespace, host, spec)
	}
	const noProxy = "old/batch none x1\n"
	for name, c := range map[string]struct{ objects, mesh, want string }{
		"defaults": {"", "", noProxy + "pay/bank sidecar x1 PERMISSIVE\nshop/cart sidecar x1 PERMISSIVE\nshop/web sidecar x1 PERMISSIVE\n"},
		"strict, with a port": {
			strict + "---\nkind: PeerAuthentication\nmetadata: {name: port, namespace: shop}\n" +
				"spec: {selector: {matchLabels: {app: cart}}, mtls: {mode: STRICT}, portLevelMtls: {8080: {mode: PERMISSIVE}}}\n", "",
			noProxy + "pay/bank sidecar x1 PERMISSIVE\nshop/cart sidecar x1 STRICT 8080=PERMISSIVE\nshop/web sidecar x1 STRICT\n",
		},
		"a rule of the service for all callers": {
			strict + rule("shop", "cart", "trafficPolicy: {tls: {mode: DISABLE}}"), "",
			noProxy + "pay/bank sidecar x1 PERMISSIVE\n" +
				"shop/cart sidecar x1 STRICT <cart.shop.svc.cluster.local:80 from pay,shop by [DestinationRule/shop/r] refused true>\n" +
				"shop/web sidecar x1 STRICT\n",
		},
		"a rule of one caller, with a wildcard": {
			rule("pay", "*.shop.svc.cluster.local", "trafficPolicy: {tls: {mode: DISABLE}}"), "",
			noProxy + "pay/bank sidecar x1 PERMISSIVE\n" +
				"shop/cart sidecar x1 PERMISSIVE <cart.shop.svc.cluster.local:80 from pay by [DestinationRule/pay/r] refused false>\n" +
				"shop/web sidecar x1 PERMISSIVE <web.shop.svc.cluster.local:80 from pay by [DestinationRule/pay/r] refused false>\n",
		},
		"a rule for a subset that is another workload": {
			rule("shop", "cart", "subsets: [{name: v2, labels: {version: v2}, trafficPolicy: {tls: {mode: DISABLE}}}]"), "",
			noProxy + "pay/bank sidecar x1 PERMISSIVE\nshop/cart sidecar x1 PERMISSIVE\nshop/web sidecar x1 PERMISSIVE\n",
		},
		"a rule for a subset without labels, which is all workloads": {
			rule("shop", "cart", "subsets: [{name: all, trafficPolicy: {tls: {mode: DISABLE}}}]"), "",
			noProxy + "pay/bank sidecar x1 PERMISSIVE\n" +
				"shop/cart sidecar x1 PERMISSIVE <cart.shop.svc.cluster.local:80all from pay,shop by [DestinationRule/shop/r] refused false>\n" +
				"shop/web sidecar x1 PERMISSIVE\n",
		},
		"ISTIO_MUTUAL and a Sidecar that hides the service": {
			rule("shop", "cart", "trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}") +
				rule("pay", "web.shop.svc.cluster.local", "trafficPolicy: {tls: {mode: DISABLE}}") +
				"---\nkind: Sidecar\nmetadata: {name: default, namespace: pay}\nspec: {egress: [{hosts: ['./*']}]}\n", "",
			noProxy + "pay/bank sidecar x1 PERMISSIVE\nshop/cart sidecar x1 PERMISSIVE\nshop/web sidecar x1 PERMISSIVE\n",
		},
		"without automatic mutual TLS": {
			rule("shop", "cart", "trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}"), "enableAutoMtls: false",
			noProxy + "pay/bank sidecar x1 PERMISSIVE <bank.pay.svc.cluster.local:80 from pay,shop by [] refused false>\n" +
				"shop/cart sidecar x1 PERMISSIVE\n" +
				"shop/web sidecar x1 PERMISSIVE <web.shop.svc.cluster.local:80 from pay,shop by [] refused false>\n",
		},
	} {
		if got := modes(New(newSnapshot(t, shop()+c.objects, c.mesh))); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", name, got, c.want)
		}
	}
}

// TestGroups shows that pods of one Deployment are one group, a gateway is not a sidecar, and a pod
// that another object selects is a group of its own.
func TestGroups(t *testing.T) {
	pod := func(name, ip, app, version string) string {
		return fmt.Sprintf(`---
kind: Pod
metadata:
  name: %[1]s
  namespace: shop
  labels: {app: %[3]s, version: %[4]s, pod-template-hash: abc, security.istio.io/tlsMode: istio}
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: %[3]s-abc, uid: x, controller: true}]
spec: {serviceAccountName: %[3]s}
status: {phase: Running, podIP: %[2]s, podIPs: [{ip: %[2]s}], conditions: [{type: Ready, status: "True"}]}
`, name, ip, app, version)
	}
	m := New(newSnapshot(t, pod("web-abc-1", "10.1.0.1", "web", "v1")+pod("web-abc-2", "10.1.0.2", "web", "v1")+
		pod("web-abc-3", "10.1.0.3", "web", "v2")+pod("door-abc-1", "10.1.0.4", "door", "v1")+`---
kind: PeerAuthentication
metadata: {name: v2, namespace: shop}
spec: {selector: {matchLabels: {version: v2}}, mtls: {mode: STRICT}}
---
kind: Gateway
metadata: {name: door, namespace: shop}
spec: {selector: {app: door}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`, ""))
	if got, want := modes(m), "shop/door gateway x1\nshop/web sidecar x2 PERMISSIVE\nshop/web sidecar x1 STRICT\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
