package connectivity

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// workload returns the manifests of a pod with the account NAME that serves port 80 of the Service
// NAME at its port 8080. It has a sidecar unless proxy is false.
func workload(namespace, name, ip string, proxy bool) string {
	tls := ""
	if proxy {
		tls = ", security.istio.io/tlsMode: istio"
	}
	return fmt.Sprintf(`---
kind: Pod
metadata: {name: %[2]s, namespace: %[1]s, labels: {app: %[2]s%[4]s}}
spec: {serviceAccountName: %[2]s}
status: {phase: Running, podIP: %[3]s, podIPs: [{ip: %[3]s}], conditions: [{type: Ready, status: "True"}]}
---
kind: Service
metadata: {name: %[2]s, namespace: %[1]s}
spec: {clusterIP: 10.9%[5]s, selector: {app: %[2]s}, ports: [{name: http, port: 80, targetPort: 8080}]}
---
kind: EndpointSlice
apiVersion: discovery.k8s.io/v1
metadata: {name: %[2]s-x, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [%[3]s], conditions: {ready: true}, targetRef: {kind: Pod, name: %[2]s, namespace: %[1]s}}]
`, namespace, name, ip, tls, strings.TrimPrefix(ip, "10.1"))
}

// shop is a mesh of three namespaces: shop/web and shop/cart, pay/bank with sidecars, and old/batch
// without one.
func shop() string {
	return workload("shop", "web", "10.1.0.1", true) + workload("shop", "cart", "10.1.0.2", true) +
		workload("pay", "bank", "10.1.0.3", true) + workload("old", "batch", "10.1.0.4", false)
}

// newSnapshot returns the snapshot of manifests. meshConfig is a MeshConfig, or "" for the defaults.
func newSnapshot(t testing.TB, manifests, meshConfig string) *snapshot.Snapshot {
	t.Helper()
	return fixture.New(t, []byte(manifests), []byte(meshConfig)).Snapshot()
}
