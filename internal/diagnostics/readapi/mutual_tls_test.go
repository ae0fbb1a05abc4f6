package readapi

import (
	"fmt"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate"
)

// callMesh has the workloads web and cart of shop and bank of pay, each with a Service of its name, and
// calls to cart in plain text by a rule of pay.
func callMesh() string {
	text := `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: plain, namespace: pay}
spec: {host: cart.shop.svc.cluster.local, trafficPolicy: {tls: {mode: DISABLE}}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: shop}
spec: {mtls: {mode: STRICT}}
`
	for i, name := range [][2]string{{"shop", "web"}, {"shop", "cart"}, {"pay", "bank"}} {
		text += fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s, labels: {app: %[2]s, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: %[2]s}
status: {phase: Running, podIP: 10.1.0.%[3]d, podIPs: [{ip: 10.1.0.%[3]d}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {clusterIP: 10.9.0.%[3]d, selector: {app: %[2]s}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: %[2]s-x, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.1.0.%[3]d], conditions: {ready: true}, targetRef: {kind: Pod, name: %[2]s, namespace: %[1]s}}]
`, name[0], name[1], i+1)
	}
	return text
}

// newCallAPI returns an API of callMesh with more objects.
func newCallAPI(t *testing.T, objects string) *API {
	t.Helper()
	m, err := offline.NewMesh(nil)
	if err != nil {
		t.Fatal(err)
	}
	s := m.SetObjects(offline.DecodeObjects("mesh.yaml", []byte(callMesh()+objects)))
	o := newAPI(t).Options
	o.Snapshot = func() *snapshot.Snapshot { return s }
	o.Pages = debug.New(debug.Options{Proxies: connections{}, Snapshot: o.Snapshot, Access: o.Access})
	o.Table = translate.NewTable(translate.Options{})
	return New(o)
}

// TestMutualTLS shows what operators and callers of a namespace see, and that both questions have
// used the same computation.
func TestMutualTLS(t *testing.T) {
	a := newCallAPI(t, "")
	x := readView[MutualTLSAnswer](t, a, "", "/mutual-tls")
	if x.Strict != 2 || x.Permissive != 1 || x.NoProxy+x.Gateways+x.Disabled != 0 || !x.Automatic || len(x.Workloads) != 3 {
		t.Fatalf("the answer is %+v", x)
	}
	cart := x.Workloads[1]
	if cart.Name != "cart" || cart.MutualTLS.Mode != "STRICT" || cart.MutualTLS.From[0] != "PeerAuthentication/shop/strict" || len(cart.PlainText) != 1 ||
		!cart.PlainText[0].Refused || cart.PlainText[0].Namespaces[0] != "pay" || cart.PlainText[0].Rules[0].Name != "plain" {
		t.Errorf("the workload is %+v", cart)
	}
	known := a.connectivity.now
	if x := readView[MutualTLSAnswer](t, a, "shop", "/mutual-tls?filter=cart"); len(x.Workloads) != 1 || x.Strict != 1 || x.Permissive != 0 ||
		len(x.Workloads[0].PlainText[0].Rules) != 0 {
		t.Errorf("shop sees %+v", x)
	}
	if x := readView[MutualTLSAnswer](t, a, "shop", "/mutual-tls?namespace=pay"); len(x.Workloads) != 0 || x.Permissive != 0 {
		t.Errorf("shop sees of pay %+v", x)
	}
	if a.connectivity.now != known {
		t.Error("the same snapshot is computed twice")
	}
}
