package skew

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	internalmesh "github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestVersions: a mesh of each Envoy version works, rejects no resource, and Problems report the
// features that the version lacks.
func TestVersions(t *testing.T) {
	longtest.Test(t)
	bin := programs(t)
	for _, version := range envoy.Skewed() {
		t.Run(version.String(), func(t *testing.T) {
			w := startWorld(t, bin, version)
			w.isVersion(t, "client", version)
			if got := w.await(t, "/", http.StatusOK).Get("X-Forwarded-Client-Cert"); !strings.Contains(got, "URI=spiffe://cluster.local/ns/default/sa/client") {
				t.Errorf("the server does not see the client's identity: %q", got)
			}
			for _, kind := range []echo.Kind{echo.HTTP, echo.HTTP2, echo.GRPC, echo.TCP} {
				w.awaitCall(t, kind)
			}
			w.writeConfig(t, "policy", `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: closed, namespace: default}
spec: {action: DENY, rules: [{to: [{operation: {paths: [/closed], ports: ["8090"]}}], from: [{source: {principals: [cluster.local/ns/default/sa/client]}}]}]}
`)
			w.await(t, "/closed", http.StatusForbidden)
			w.await(t, "/open", http.StatusOK)
			w.routes = "{match: [{uri: {prefix: /teapot}}], directResponse: {status: 418}}, "
			w.putService(t, "server-a", "server-b")
			w.await(t, "/teapot", http.StatusTeapot)
			if version.Minor >= 38 { // Older ones crash when the first module arrives (ADR 34).
				w.plugin(t)
			}
			w.checkProblems(t, version)
			w.leave(t)
			w.drain(t)
		})
	}
}

// awaitCall waits until the servers answer a call of this kind. Each port has a listener of its own in
// the client's Envoy, which becomes active on its own: until then the call goes to an address that no
// host has.
func (w *world) awaitCall(t *testing.T, kind echo.Kind) {
	t.Helper()
	serving.Eventually(t, effectTime, fmt.Sprintf("a call by %s is answered", kind), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), effectTime/4)
		defer cancel()
		c := echo.NewCaller(kind, w.dial, "server.mesh", ports())
		defer c.Close()
		_, err := c.Call(ctx, "one")
		return err
	})
}

// isVersion checks that a pod runs the Envoy that the test is about.
func (w *world) isVersion(t *testing.T, pod string, want internalmesh.EnvoyVersion) {
	t.Helper()
	if info, err := w.envoyOf(t.Context(), pod, "/server_info"); err != nil || !strings.Contains(info, "/"+want.String()+"/") {
		t.Fatalf("%s does not run Envoy %s: %v\n%.200s", pod, want, err, info)
	}
}

// checkProblems: nothing was refused, and there is one Problem on metrics for all sidecars if their version has none.
func (w *world) checkProblems(t *testing.T, version internalmesh.EnvoyVersion) {
	t.Helper()
	var nacks []any
	w.ask(t, "/debug/nackz", &nacks)
	if len(nacks) > 0 {
		t.Errorf("refused: %v", nacks)
	}
	var problems []struct{ Field, Reason string }
	w.ask(t, "/debug/problemz", &problems)
	want, metrics := 0, 0
	if version.Minor < 39 {
		want = 1
	}
	for _, p := range problems {
		if strings.Contains(p.Reason, ": there are no metrics") {
			metrics++
		}
	}
	if metrics != want {
		t.Errorf("%d Problems on metrics, want %d: %v", metrics, want, problems)
	}
}

// ask reads a debug page.
func (w *world) ask(t *testing.T, page string, into any) {
	t.Helper()
	c := w.ControlPlane.Node.Client(effectTime)
	defer c.CloseIdleConnections()
	text, err := serving.Ask(t.Context(), c, "http://127.0.0.1:8080"+page)
	if err == nil {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil {
		t.Fatal(page, err)
	}
}

// drain ends a server's sidecar with a request on its way, which has to be answered.
func (w *world) drain(t *testing.T) {
	t.Helper()
	w.putService(t, "server-a")
	w.awaitEndpoint(t, "server-b", false)
	w.awaitIdle(t, "server-b")
	tally := w.underLoad(t, func() {
		if err := w.Workload("server-b").Agent.Stop(10 * time.Second); err != nil {
			t.Error(err)
		}
	})
	w.checkLoss(t, "while a server drained", tally)
}

// awaitEndpoint waits until the client's Envoy has an endpoint, or no longer has it.
func (w *world) awaitEndpoint(t *testing.T, server string, want bool) {
	t.Helper()
	serving.Eventually(t, effectTime, fmt.Sprintf("the client has the endpoint of %s: %t", server, want), func() error {
		text, err := w.envoyOf(t.Context(), "client", "/clusters")
		if err == nil && strings.Contains(text, "::"+serverAddresses()[server]+":8080::") != want {
			err = fmt.Errorf("it is the other way around")
		}
		return err
	})
}

// awaitIdle waits until no connection to a pod's sidecar is left. A platform waits for a time that is long enough; the sidecars of
// this mesh drain for one second only, which a busy machine may exceed.
func (w *world) awaitIdle(t *testing.T, pod string) {
	t.Helper()
	serving.Eventually(t, effectTime, pod+" has no connections", func() error {
		text, err := w.envoyOf(t.Context(), pod, "/stats?filter=^listener%5C.0.0.0.0_15006%5C.downstream_cx_active$")
		if err == nil && strings.TrimSpace(text) != "listener.0.0.0.0_15006.downstream_cx_active: 0" {
			err = fmt.Errorf("%q", text)
		}
		return err
	})
}

// underLoad runs short requests of all kinds from the client during a change. Long TCP connections
// are not among them: when their server leaves the service, Envoy closes them after the drain time
// of the old filter chain.
func (w *world) underLoad(t *testing.T, happens func()) load.Tally {
	t.Helper()
	var lanes []load.Lane
	for _, kind := range []echo.Kind{echo.HTTP, echo.HTTPClose, echo.HTTP2, echo.GRPC, echo.TCPOpen} {
		lanes = append(lanes, load.Lane{
			Name: string(kind), Kind: kind, Rate: 40, Workers: 4, Timeout: 10 * time.Second,
			Caller: func() echo.Caller { return echo.NewCaller(kind, w.dial, "server.mesh", ports()) },
		})
	}
	l := load.Start(lanes)
	happens()
	return l.Stop()
}

// TestRollingUpgrade replaces the Envoy of every sidecar by a newer one while requests run, as a
// rolling upgrade does: a server is removed from the endpoints, drains and returns. No request may
// be lost. The client, whose pod would be replaced with its application, is upgraded between two
// runs.
func TestRollingUpgrade(t *testing.T) {
	if os.Getenv("MESHPILOT_SKEW") != "true" {
		t.Skip("`make skew` runs it")
	}
	all := envoy.Releases()
	from, to := all[len(all)-3], all[len(all)-1]
	binary := envoy.RequireRelease(t, to)
	w := startWorld(t, programs(t), from)
	w.await(t, "/", http.StatusOK)
	w.awaitEndpoint(t, "server-b", true)
	upgrade := func(pod string) {
		w.isVersion(t, pod, from)
		if err := w.Workload(pod).Upgrade(t.Context(), binary); err != nil {
			t.Error(err)
		}
		w.isVersion(t, pod, to)
	}
	for _, round := range [][2]string{{"server-a", "server-b"}, {"server-b", "server-a"}} {
		pod, other := round[0], round[1]
		tally := w.underLoad(t, func() {
			w.putService(t, other)
			w.awaitEndpoint(t, pod, false)
			w.awaitIdle(t, pod)
			upgrade(pod)
			w.putService(t, "server-a", "server-b")
			w.awaitEndpoint(t, pod, true)
		})
		w.checkLoss(t, "while "+pod+" was upgraded", tally)
	}
	upgrade("client")
	w.awaitEndpoint(t, "server-a", true)
	w.awaitEndpoint(t, "server-b", true)
	w.await(t, "/", http.StatusOK)
	w.checkLoss(t, "when all was upgraded", w.underLoad(t, func() {
		w.routes = "{match: [{uri: {prefix: /teapot}}], directResponse: {status: 418}}, "
		w.putService(t, "server-a", "server-b")
		w.await(t, "/teapot", http.StatusTeapot)
	}))
}

// checkLoss fails the test if a request was lost, or if there were none.
func (w *world) checkLoss(t *testing.T, when string, tally load.Tally) {
	t.Helper()
	sum := tally.Sum(nil)
	t.Logf("%s: %d requests, %d lost", when, sum.Sent, sum.Failed)
	if sum.Sent == 0 || sum.Failed > 0 {
		t.Errorf("%s %d of %d requests were lost: %v", when, sum.Failed, sum.Sent, tally.Failures)
	}
}
