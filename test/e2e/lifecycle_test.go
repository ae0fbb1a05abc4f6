package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
)

// TestAgentEndsWithEnvoysStatus kills one Envoy the hard way.
func TestAgentEndsWithEnvoysStatus(t *testing.T) {
	m := bookinfoMesh(t)
	w := m.Workload("reviews-v3")
	if err := syscall.Kill(childOf(t, w.Agent.PID()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.Agent.Done():
	case <-time.After(settleTime):
		t.Fatal("the agent goes on without Envoy")
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
	eventually(t, "all proxies come back", func() error {
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
