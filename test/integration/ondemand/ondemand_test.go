package ondemand

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// rule is the VirtualService of the third service.
const rule = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: h3, namespace: default}
spec: {hosts: [h3.mesh], http: [{retries: {attempts: 0}, %s}]}
`

// TestOnDemand plays all scenes in one mesh, one after the other.
func TestOnDemand(t *testing.T) {
	longtest.Test(t)
	w := startWorld(t)
	for _, scene := range []struct {
		name string
		play func(*testing.T, *world)
	}{
		{"first calls", firstCalls},
		{"rules", rules},
		{"policies", policies},
		{"services change", serviceChanges},
		{"the control plane restarts", controlPlaneRestarts},
	} {
		if !t.Run(scene.name, func(t *testing.T) { scene.play(t, w) }) {
			t.FailNow() // later steps depend on this one
		}
	}
}

func requireAnswer(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// firstCalls: a sidecar starts without the clusters of services, and fetches each at the first
// call. No call fails for that.
func firstCalls(t *testing.T, w *world) {
	w.awaitRoutes(t)
	w.hasClusters(t, "nothing was called", httpCluster(last))
	requireAnswer(t, "the first request", w.call(t, 1, "/", ""), "200 one 0")
	w.hasClusters(t, "one service was called", httpCluster(1), httpCluster(last))
	requireAnswer(t, "the first request, with a body", w.call(t, 2, "/", strings.Repeat("x", 100_000)), "200 two 100000")
	requireAnswer(t, "the first connection", w.connect(t, 1), "one hello")
	requireAnswer(t, "the second connection", w.connect(t, 1), "one hello")
	w.hasClusters(t, "three ports were called", tcpCluster(1), httpCluster(last), httpCluster(1), httpCluster(2))
}

// awaitRoutes waits until the client's Envoy has the routes of all services: the last one answers.
func (w *world) awaitRoutes(t *testing.T) {
	t.Helper()
	w.eventually(t, "the mesh is up", last, "/", "200 one 0")
}

// eventually waits for an answer of the n-th service.
func (w *world) eventually(t *testing.T, what string, n int, path, want string) {
	t.Helper()
	serving.Eventually(t, effectTime, what, func() error {
		if got := w.call(t, n, path, ""); got != want {
			return fmt.Errorf("answered %q, want %q", got, want)
		}
		return nil
	})
}

// rules: weighted destinations are fetched when they are first chosen, and a mirror's cluster is
// sent before the route that refers to it.
func rules(t *testing.T, w *world) {
	w.apply(t, fmt.Sprintf(rule, "route: [{destination: {host: h4.mesh}, weight: 50}, {destination: {host: h5.mesh}, weight: 50}]"),
		service(4, "one"), service(5, "two"))
	seen := map[string]bool{}
	serving.Eventually(t, effectTime, "both destinations answer", func() error {
		answer := w.call(t, 3, "/", "")
		if !strings.HasPrefix(answer, "200 ") {
			t.Errorf("a request fails: %s", answer)
		}
		if seen[answer] = true; !seen["200 one 0"] {
			return fmt.Errorf("only %v", seen)
		}
		return nil
	})
	for range 40 {
		answer := w.call(t, 3, "/", "")
		if seen[answer] = true; !strings.HasPrefix(answer, "200 ") {
			t.Errorf("a request fails: %s", answer)
		}
	}
	if !seen["200 one 0"] || !seen["200 two 0"] {
		t.Errorf("only %v answered", seen)
	}
	before := w.hits["two"].Load()
	w.apply(t, service(6, "two"),
		fmt.Sprintf(rule, "route: [{destination: {host: h4.mesh}}], mirror: {host: h6.mesh}, mirrorPercentage: {value: 100}"))
	serving.Eventually(t, effectTime, "copies arrive", func() error {
		requireAnswer(t, "a mirrored request", w.call(t, 3, "/", "")[:4], "200 ")
		if !slices.Contains(w.clusters(t), httpCluster(6)) || w.hits["two"].Load() < before+20 {
			return fmt.Errorf("%d copies", w.hits["two"].Load()-before)
		}
		return nil
	})
}

// policies: a policy of the server holds from the first call on.
func policies(t *testing.T, w *world) {
	w.apply(t, `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: one, namespace: default}
spec: {selector: {matchLabels: {app: one}}, action: DENY, rules: [{to: [{operation: {paths: [/denied]}}]}]}
`, service(7, "one"))
	w.eventually(t, "a denied path", 7, "/denied", "403 RBAC: access denied")
	requireAnswer(t, "another path", w.call(t, 7, "/", ""), "200 one 0")
}

// serviceChanges: endpoints of fetched clusters change. Calls to a service that was called and
// deleted fail at once, and work when it is back. First calls to an unknown service fail at once,
// too.
func serviceChanges(t *testing.T, w *world) {
	w.apply(t, service(1, "two"))
	w.eventually(t, "another endpoint", 1, "/", "200 two 0")
	const noEndpoint = "503 no healthy upstream"
	w.apply(t, fmt.Sprintf(rule, "route: [{destination: {host: h2.mesh}}]"))
	w.eventually(t, "a route to the second service", 3, "/", "200 two 0")
	if err := w.Rules.Delete("ServiceEntry", "h2"); err != nil {
		t.Fatal(err)
	}
	w.eventually(t, "the second service is deleted", 3, "/", noEndpoint)
	requireAnswer(t, "another request to it", w.call(t, 3, "/", ""), noEndpoint)
	w.apply(t, service(2, "one"))
	w.eventually(t, "it is back", 3, "/", "200 one 0")
	w.apply(t, fmt.Sprintf(rule, "route: [{destination: {host: h9.mesh, port: {number: 8090}}}]"))
	w.eventually(t, "a route to a service that does not exist", 3, "/", noEndpoint)
	requireAnswer(t, "another request to it", w.call(t, 3, "/", ""), noEndpoint)
	w.apply(t, service(9, "two"))
	w.eventually(t, "it exists", 3, "/", "200 two 0")
}

// controlPlaneRestarts: calls succeed while the control plane restarts, and fetched clusters are
// still updated afterwards. The mirror's cluster, to which no route refers any more, is not sent
// again.
func controlPlaneRestarts(t *testing.T, w *world) {
	before := slices.DeleteFunc(w.clusters(t), func(name string) bool { return name == httpCluster(6) })
	if err := w.ControlPlane.Kill(); err != nil {
		t.Fatal(err)
	}
	requireAnswer(t, "without a control plane", w.call(t, 1, "/", ""), "200 two 0")
	if err := w.ControlPlane.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.apply(t, service(1, "one"), service(8, "two"))
	w.eventually(t, "a change after the restart", 1, "/", "200 one 0")
	w.eventually(t, "a first call after the restart", 8, "/", "200 two 0")
	w.hasClusters(t, "nothing else was fetched", append(before, httpCluster(8))...)
}
