package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestEnvoyIsKilled tests that the agent exits with Envoy's status and logs the reason.
func TestEnvoyIsKilled(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{})
	if err := syscall.Kill(a.envoyPID(t), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := a.awaitExit(t); status != 137 {
		t.Errorf("status %d, want 137", status)
	}
	a.awaitLog(t, "error\tenvoy was killed by signal 9 (SIGKILL): by a user, or by the kernel's OOM killer")
}

// TestAgentIsKilled tests that Envoy does not outlive the agent.
func TestAgentIsKilled(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{})
	pid := a.envoyPID(t)
	serving.Eventually(
		t,
		patience,
		"Envoy",
		func() error { return want(get(a.admin, "/ready"), 503, "PRE_INITIALIZING") },
	)
	a.signal(t, syscall.SIGKILL)
	a.awaitExit(t)
	serving.Eventually(t, patience, "the end of Envoy", func() error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if _, rest, _ := strings.Cut(string(status), ") "); err == nil && !strings.HasPrefix(rest, "Z") {
			return fmt.Errorf("process %d still exists: %s", pid, status)
		}
		return nil
	})
}

// TestEnvoyExitStatus tests the exits that Envoy chooses itself.
func TestEnvoyExitStatus(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 1, 42} {
		a := startAgent(t, settings{binary: standInPath(t), env: []string{"STAND_IN=" + strconv.Itoa(code)}})
		if status := a.awaitExit(t); status != code {
			t.Errorf("status %d, want %d", status, code)
		}
		a.awaitLog(t, fmt.Sprintf("error\tenvoy exited with status %d", code))
	}
}

// TestEnvoyRefusesItsBootstrap tests that Envoy's own error is logged, and its status passed on.
func TestEnvoyRefusesItsBootstrap(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "own.json")
	if err := os.WriteFile(file, []byte(`{"static_resources": {"clusters": [{"type": "clusterz"}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := startAgent(t, settings{config: map[string]any{"customConfigFile": file}})
	if status := a.awaitExit(t); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	a.awaitLog(t, "clusterz")
	a.awaitLog(t, "using the bootstrap of ProxyConfig.customConfigFile\tfile="+file)
	a.awaitLog(t, "error\tenvoy exited with status 1")
}

func TestEnvoyCannotBeStarted(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(text, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, reason := range map[string]string{
		"/nowhere/envoy": "no such file or directory", text: "exec format error", filepath.Dir(text): "permission denied",
	} {
		a := startAgent(t, settings{binary: path})
		if status := a.awaitExit(t); status != 1 {
			t.Errorf("%s: status %d, want 1", path, status)
		}
		a.awaitLog(
			t,
			fmt.Sprintf("pilot-agent: start envoy %q: fork/exec %s: %s (ProxyConfig.binaryPath)", path, path, reason),
		)
	}
}

// TestStatusPortIsTaken tests that Envoy is not started if the status port is in use, because it
// would never become ready.
func TestStatusPortIsTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", serving.FreePort(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	a := startAgent(t, settings{binary: standInPath(t), config: map[string]any{"statusPort": port}})
	if status := a.awaitExit(t); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	a.awaitLog(
		t,
		fmt.Sprintf(
			"pilot-agent: status port (ProxyConfig.statusPort): listen tcp :%d: bind: address already in use",
			port),
	)
	if strings.Contains(a.text(), "stand-in called") {
		t.Error("Envoy was started")
	}
}

// TestEnvoyThatDoesNotEnd tests that such an Envoy is killed after a timeout, and that this is not
// an error of the agent.
func TestEnvoyThatDoesNotEnd(t *testing.T) {
	longtest.Test(t)
	t.Parallel()
	a := startAgent(
		t,
		settings{
			binary: standInPath(t),
			env:    []string{"STAND_IN=stubborn"},
			config: map[string]any{"terminationDrainDuration": "0s"},
		},
	)
	a.awaitLog(t, "stand-in called with -c ")
	a.signal(t, syscall.SIGTERM)
	if status := a.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
	a.awaitLog(t, "envoy did not exit within 5s of SIGTERM and was killed")
}

// TestWithoutEnvoy tests that DISABLE_ENVOY leaves the status port, and an agent that is always
// ready.
func TestWithoutEnvoy(t *testing.T) {
	t.Parallel()
	a := startAgent(t, settings{binary: "/nowhere", env: []string{"DISABLE_ENVOY=true"}})
	a.awaitReady(t)
	check(t, want(get(a.status, "/stats/prometheus"), 200, "istio_agent_scrapes_total 1"))
	a.signal(t, syscall.SIGTERM)
	if status := a.awaitExit(t); status != 0 {
		t.Errorf("status %d, want 0", status)
	}
}
