package authorization

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connectivity"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate"
	"github.com/meshpilot/meshpilot/internal/translate/cluster"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// callerObjects are policies for cart by identity, namespace, address, method and path, of which some
// contradict each other, with a port that requires mutual TLS, and a caller whose DestinationRule has
// it call in plain text.
const callerObjects = `---
kind: AuthorizationPolicy
metadata: {name: allow, namespace: shop}
spec:
  selector: {matchLabels: {app: cart}}
  rules:
  - {from: [{source: {principals: [cluster.local/ns/shop/sa/web]}}]}
  - {from: [{source: {namespaces: [pay]}}], to: [{operation: {methods: [GET], paths: ["/items/*"]}}]}
  - {from: [{source: {ipBlocks: [127.66.9.4]}}], to: [{operation: {paths: [/health]}}]}
---
kind: AuthorizationPolicy
metadata: {name: deny, namespace: shop}
spec:
  action: DENY
  selector: {matchLabels: {app: cart}}
  rules:
  - {from: [{source: {principals: [cluster.local/ns/pay/sa/fraud]}}]}
  - {to: [{operation: {methods: [DELETE], paths: ["/items/{*}"]}}], from: [{source: {notNamespaces: [shop]}}]}
---
kind: PeerAuthentication
metadata: {name: cart, namespace: shop}
spec: {selector: {matchLabels: {app: cart}}, mtls: {mode: PERMISSIVE}, portLevelMtls: {8081: {mode: STRICT}}}
---
kind: DestinationRule
metadata: {name: plain, namespace: pay}
spec: {host: cart.shop.svc.cluster.local, workloadSelector: {matchLabels: {app: plain}}, trafficPolicy: {tls: {mode: DISABLE}}}
---
kind: Service
metadata: {name: cart, namespace: shop}
spec: {clusterIP: 10.96.9.1, selector: {app: cart}, ports: [{name: http, port: 80, targetPort: 8080}, {name: http-strict, port: 81, targetPort: 8081}]}
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: cart-x, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}, {name: http-strict, port: 8081, protocol: TCP}]
endpoints: [{addresses: [127.66.9.1], conditions: {ready: true}, targetRef: {kind: Pod, name: cart, namespace: shop}}]
`

// callerPods returns the pods of callers, NAMESPACE/NAME with a proxy, at 127.66.9.2 and after. The
// one with the address 127.66.9.4 has no proxy.
func callerPods() string {
	var text strings.Builder
	for i, name := range []string{"shop/web", "pay/bank", "old/batch", "pay/fraud", "pay/plain", "shop/other"} {
		namespace, name, _ := strings.Cut(name, "/")
		tls := ", security.istio.io/tlsMode: istio"
		if name == "batch" {
			tls = ""
		}
		fmt.Fprintf(&text, `---
kind: Pod
metadata: {name: %[1]s, namespace: %[2]s, labels: {app: %[1]s%[3]s}}
spec: {serviceAccountName: %[1]s}
status: {phase: Running, podIP: 127.66.9.%[4]d, podIPs: [{ip: 127.66.9.%[4]d}], conditions: [{type: Ready, status: "True"}]}
`, name, namespace, tls, i+2)
	}
	return text.String()
}

// TestCallers predicts for each workload, port and request whether it may call, and makes the calls
// to a real Envoy, with the caller's certificate and from its address. All verdicts must agree.
func TestCallers(t *testing.T) {
	own := ownAddresses(t)
	s := &scene{name: "callers", objects: bytes.ReplaceAll([]byte(callerObjects+callerPods()), []byte(addresses), []byte(own))}
	s.workloads = []*workload{{
		Name: "cart", Namespace: "shop", Address: netip.MustParseAddr(own + "9.1"),
		Labels: map[string]string{"app": "cart", "security.istio.io/tlsMode": "istio"},
	}}
	known := fixture.New(t, bytes.Join([][]byte{s.objects, s.pods(t)}, []byte("\n---\n")), nil).Snapshot()
	m, generators := connectivity.New(known), translate.NewTable(translate.Options{}).Generators
	svc := known.Service(mesh.ServiceKey{Namespace: "shop", Host: "cart.shop.svc.cluster.local"})
	predicted := map[*testCase]connectivity.Verdict{}
	for port, target := range map[uint32]int{80: 8080, 81: 8081} {
		for _, request := range []string{"GET /", "GET /items/7", "DELETE /items/7", "POST /items/7", "GET /health"} {
			method, path, _ := strings.Cut(request, " ")
			answer := m.Callers(connectivity.Question{Service: svc, Port: port, Method: method, Path: path}, generators)
			for _, caller := range answer.Callers {
				if caller.Name == "cart" {
					continue
				}
				c := &testCase{
					scene: s, Name: fmt.Sprintf("%s/%s %s at %d", caller.Namespace, caller.Name, request, port),
					To: fmt.Sprintf("cart:%d", target), From: caller.Address(), Call: request,
				}
				if caller.Transport == cluster.MeshTLS {
					c.As = strings.TrimPrefix(caller.Account, "spiffe://")
				}
				s.cases = append(s.cases, c)
				predicted[c] = caller.Verdict
			}
		}
	}
	authority, tokens := newSecrets(), newTokens(t)
	start(t, []*scene{s}, authority, tokens)
	counts := map[connectivity.Verdict]int{}
	for _, c := range s.cases {
		o := c.do(t.Context(), t, authority, tokens)
		if errors.Is(o.ended, syscall.ECONNREFUSED) {
			t.Fatalf("%s: no listener accepts the connection: %v", c.Name, o.ended)
		}
		really := connectivity.Denied
		if o.verdict() == "allow" {
			really = connectivity.Allowed
		}
		if counts[really]++; predicted[c] != really {
			t.Errorf("%s: predicted %s, really %s", c.Name, predicted[c], o)
		}
	}
	t.Logf("%d calls: %v", len(s.cases), counts)
	if counts[connectivity.Allowed] < 10 || counts[connectivity.Denied] < 20 {
		t.Errorf("the calls prove too little: %v", counts)
	}
}
