package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	meshnames "github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestAgentEndsWithEnvoysStatus kills one Envoy the hard way.
func TestAgentEndsWithEnvoysStatus(t *testing.T) {
	longtest.Test(t)
	m := bookinfoMesh(t)
	w := m.Workload("reviews-v3")
	if err := syscall.Kill(childOf(t, w.Agent.PID()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Agent.Done():
	case <-time.After(settleTime):
		t.Fatal("the agent still runs after Envoy has ended")
	}
	if status := w.Agent.Status(); status != 128+int(syscall.SIGKILL) {
		t.Errorf("the agent ended with status %d, want %d", status, 128+int(syscall.SIGKILL))
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	if err := w.Restart(ctx); err != nil {
		t.Fatal(err)
	}
}

// childOf finds the one child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err == nil {
			all = append(all, strings.Fields(string(b))...)
		}
	}
	if len(all) != 1 {
		t.Fatalf("process %d has the children %v, want one", pid, all)
	}
	child, err := strconv.Atoi(all[0])
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// TestControlPlaneMayBeKilled: SIGKILL while requests run; none fails, and the next one takes up where it left.
func TestControlPlaneMayBeKilled(t *testing.T) {
	m := bookinfoMesh(t)
	load := mesh.StartLoad(m.Workload("client").Node, mesh.Reviews, 50)
	if err := m.ControlPlane.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := m.ControlPlane.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, settleTime, "all proxies come back", func() error {
		var list []struct{ Proxy string }
		debugPage(t, m, "/debug/syncz", &list)
		if len(list) != len(m.Workloads) {
			return fmt.Errorf("%d of %d are connected", len(list), len(m.Workloads))
		}
		return nil
	})
	if tally := load.Stop(); tally.Sent == 0 || tally.Failed > 0 {
		t.Errorf("%d of %d requests failed: %v", tally.Failed, tally.Sent, tally.Failures)
	}
}

// TestApplicationEnds ends one of three applications at once while requests run, before callers are
// informed: on Kubernetes, callers also learn of an end only after it. Requests that its proxy
// cannot forward are retried at another one, and callers see no error.
func TestApplicationEnds(t *testing.T) {
	m := bookinfoMesh(t)
	gone := m.Workload("reviews-v2")
	load := mesh.StartLoad(m.Workload("client").Node, mesh.Reviews, 100)
	if err := gone.App.Stop(settleTime); err != nil {
		t.Fatal(err)
	}
	before := load.Tally().Sent
	serving.Eventually(t, settleTime, "many requests without it", func() error {
		if sent := load.Tally().Sent - before; sent < 200 {
			return fmt.Errorf("%d were sent", sent)
		}
		return nil
	})
	tally := load.Stop()
	if tally.Failed > 0 {
		t.Errorf("%d of %d requests failed: %v", tally.Failed, tally.Sent, tally.Failures)
	}
	refused := unretried(t, m)
	if refused.Header.Get(meshnames.LostRequestHeader) != "" {
		t.Errorf("an application receives headers that proxies exchange: %v", refused.Header)
	}
	if err := gone.RestartApp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// unretried returns the answer of a proxy without an application to a caller who retries nothing.
func unretried(t *testing.T, m *mesh.Mesh) (a mesh.Answer) {
	t.Helper()
	ruled(t, m, `{hosts: [reviews], http: [{retries: {attempts: 0}, route: [{destination: {host: reviews}}]}]}`)
	caller := mesh.NewCaller(m.Workload("client").Node)
	defer caller.Close()
	serving.Eventually(t, settleTime, "a request fails", func() error {
		if a = caller.Get(t.Context(), mesh.Reviews); a.Status != http.StatusServiceUnavailable {
			return fmt.Errorf("answered %s", a)
		}
		return nil
	})
	return a
}

// ruled has one VirtualService, named rule, in force until the test ends.
func ruled(t *testing.T, m *mesh.Mesh, spec string) {
	t.Helper()
	text := "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: rule}\nspec: " + spec
	if err := m.Rules.Apply(text); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Rules.Clear(); err != nil {
			t.Error(err)
		}
	})
}

// TestApplicationIsKilled kills an application while it works on requests: others answer the
// requests that may be repeated.
func TestApplicationIsKilled(t *testing.T) {
	longtest.Test(t)
	m := bookinfoMesh(t)
	// Some versions of reviews ask ratings, and so have requests in hand for a second. They get no fewer for that.
	ruled(t, m, `{hosts: [ratings], http: [{fault: {delay: {fixedDelay: 1s, percentage: {value: 100}}}, route: [{destination: {host: ratings}}]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: in-turn}
spec: {host: reviews, trafficPolicy: {loadBalancer: {simple: ROUND_ROBIN}}}
`)
	caller := mesh.NewCaller(m.Workload("client").Node)
	defer caller.Close()
	serving.Eventually(t, settleTime, "reviews waits for ratings", func() error {
		if a := caller.Get(t.Context(), mesh.Reviews); a.Took < time.Second {
			return fmt.Errorf("answered after %v: %s", a.Took, a)
		}
		return nil
	})
	gone := m.Workload("reviews-v2")
	const requests = 30
	answers := make(chan mesh.Answer, requests)
	for range requests {
		go func() { answers <- caller.Get(t.Context(), mesh.Reviews) }()
	}
	quick, slow := 0, 0
	for i := range requests {
		if i == requests/6 { // versions that call no other service have answered
			if err := syscall.Kill(gone.App.PID(), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		switch a := <-answers; {
		case a.Status != http.StatusOK:
			t.Errorf("answered %s", a)
		case a.Took < time.Second:
			quick++
		default:
			slow++
		}
	}
	if slow < requests/4 {
		t.Errorf("%d answers waited and %d did not: the application may have had nothing in hand", slow, quick)
	}
	if err := gone.RestartApp(t.Context()); err != nil {
		t.Fatal(err)
	}
}
