package console

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// manyServices returns namespaces of 20 services with a workload each. They are a tree: those of a
// namespace may call the open services of one child and the first service of both, by its Sidecar, and
// policies admit the parent only to the first service of each.
func manyServices(namespaces int) string {
	var text strings.Builder
	name := func(i int) string { return fmt.Sprintf("team-%03d", i) }
	for i := range namespaces {
		hosts := "./*"
		if child := 2*i + 1; child < namespaces {
			hosts += ", " + name(child) + "/*"
		}
		if child := 2*i + 2; child < namespaces {
			hosts += fmt.Sprintf(", %[1]s/s-00.%[1]s.svc.cluster.local", name(child))
		}
		fmt.Fprintf(&text, `---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: scope, namespace: %[1]s}
spec: {egress: [{hosts: [%[2]s]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: entry, namespace: %[1]s}
spec: {selector: {matchLabels: {app: s-00}}, rules: [{from: [{source: {namespaces: [%[3]s]}}]}]}
`, name(i), hosts, name((i-1)/2))
		for j := range 20 {
			fmt.Fprintf(&text, `---
apiVersion: v1
kind: Pod
metadata: {name: s-%02[2]d, namespace: %[1]s, labels: {app: s-%02[2]d, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: s-%02[2]d}
status: {phase: Running, podIP: 10.1.%[3]d.%[4]d, podIPs: [{ip: 10.1.%[3]d.%[4]d}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: s-%02[2]d, namespace: %[1]s}
spec: {clusterIP: 10.9.%[3]d.%[4]d, selector: {app: s-%02[2]d}, ports: [{name: http, port: 80, targetPort: 8080}]}
`, name(i), j, i, j+1)
		}
	}
	return text.String()
}

// awaitTopology waits until the control plane has computed the topology, which takes a second of CPU time
// with 5,000 services, and longer than patience on a busy machine.
func (f *fixture) awaitTopology() {
	f.t.Helper()
	serving.Eventually(f.t, 4*patience, "the topology is computed", func() error {
		response, err := http.Get(f.site + readapi.Prefix + "/topology")
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

// TestTopologyOfManyServices shows 320 services, or 5,000 with `make test`: namespaces with the calls
// between them, the services of one, and the neighbours of a service that is searched for.
func TestTopologyOfManyServices(t *testing.T) {
	namespaces := longtest.Rounds(16, 250)
	f := &fixture{dir: t.TempDir()}
	f.write(t, "mesh.yaml", manyServices(namespaces))
	o := controlplane.Options(t)
	o.ConfigDir, o.PodName = f.dir, "istiod-1"
	f.plane = controlplane.Start(t, o)
	f.browser = newBrowser(t, "http://"+f.plane.HTTP)
	f.awaitTopology()
	f.resize(1280, 1000, "light")
	f.open("topology")
	f.await("team-000", "team-015", fmt.Sprintf("services in %d namespaces", namespaces), "Sidecar/team-001/scope", "all open services of team-003")
	f.checkAccessibility("topology")
	f.checkWidth("topology")
	f.screenshot("topology-many-light")

	f.click(`svg a[href="/ui/topology?open=team-001"]`)
	f.await("s-19", "Whole mesh")
	f.awaitScript(`location.search === '?open=team-001'`)
	if *screenshots != "" && namespaces == 16 {
		f.open("topology?open=*")
		f.await("Close all namespaces")
		f.screenshot("topology-open-light")
	}

	f.fill(`input[type=search]`, "s-00 team-009")
	f.await("1 service found")
	f.click(".found a")
	f.await("policies name its callers", "all of team-004", "AuthorizationPolicy/team-009/entry", "Callers and scope, evaluated")
	f.awaitScript(`document.querySelectorAll('svg a').length < 80`)
	f.checkAccessibility("a service in the topology")
	f.screenshot("topology-focus-light")
}
