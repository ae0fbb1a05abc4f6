package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	envoykit "github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience bounds every wait. On an idle machine nothing takes a tenth of it.
const patience = 20 * time.Second

// agent is a pilot-agent that runs as a separate process.
type agent struct {
	process *envoy.Process
	log     string // file
	dir     string // working directory, where its sockets are
	user    *envoy.User
	// Ports of the agent, of Envoy's admin interface, and of its two static listeners.
	status, admin, ready, metrics int
}

// settings are those of a test's agent, merged over a sidecar with an unreachable plaintext control
// plane.
type settings struct {
	// user is whom the agent runs as, by default the user of the test.
	user *envoy.User
	// binary is Envoy, by default the real one.
	binary string
	// config are fields of ProxyConfig, env variables.
	config map[string]any
	env    []string
	args   []string
	// dir is the working directory, by default a new one.
	dir string
}

// useRealEnvoy sets the binary if none is set.
func (s *settings) useRealEnvoy(t *testing.T) {
	t.Helper()
	if s.binary == "" {
		s.binary = envoykit.RequireBinary(t)
	}
}

func startAgent(t *testing.T, s settings) *agent {
	t.Helper()
	s.useRealEnvoy(t)
	p := serving.FreePorts(t, 4)
	a := &agent{
		log:     filepath.Join(t.TempDir(), "log"),
		dir:     t.TempDir(),
		status:  p[0],
		admin:   p[1],
		ready:   p[2],
		metrics: p[3],
	}
	if s.dir != "" {
		a.dir = s.dir
	}
	env := environ(t, s, a)
	a.user = s.user
	a.start(t, env, append([]string{"proxy", "sidecar"}, s.args...))
	return a
}

func environ(t *testing.T, s settings, a *agent) []string {
	t.Helper()
	config := map[string]any{
		"binaryPath": s.binary, "configPath": "etc/istio/proxy", "concurrency": 1,
		"discoveryAddress": "127.0.0.1:1", "controlPlaneAuthPolicy": "NONE",
		"proxyAdminPort": a.admin, "statusPort": a.status,
		// The test's waits fail earlier.
		"terminationDrainDuration": "600s",
	}
	maps.Copy(config, s.config)
	js, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{
		agentVar + "=1",
		"PATH=" + os.Getenv("PATH"),
		"POD_NAME=a",
		"POD_NAMESPACE=ns",
		"INSTANCE_IPS=127.0.0.1",
		"PROXY_CONFIG=" + string(
			js,
		),
		"ENVOY_STATUS_PORT=" + strconv.Itoa(a.ready),
		"ENVOY_PROMETHEUS_PORT=" + strconv.Itoa(a.metrics),
	}, s.env...)
}

// start starts the process with a file as log, so that nothing waits for the end of a pipe.
func (a *agent) start(t *testing.T, env, args []string) {
	t.Helper()
	log, err := os.Create(a.log)
	if err != nil {
		t.Fatal(err)
	}
	path := os.Args[0]
	if a.user != nil {
		path = publicCopy(t, path)
	}
	a.process, err = envoy.Start(
		envoy.Command{Path: path, Args: args, Env: env, Dir: a.dir, User: a.user, Stdout: log, Stderr: log},
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(a.process.PID(), syscall.SIGKILL) // Envoy dies with it
		a.process.Exit()
		_ = log.Close() // the output of another user is copied to it
		if t.Failed() {
			t.Logf("log of the agent:\n%s", a.text())
		}
	})
}

func (a *agent) text() string {
	text, err := os.ReadFile(a.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// awaitLog waits until the log has a text.
func (a *agent) awaitLog(t *testing.T, text string) {
	t.Helper()
	serving.Eventually(t, patience, fmt.Sprintf("%q in the log", text), func() error {
		if !strings.Contains(a.text(), text) {
			return fmt.Errorf("not there")
		}
		return nil
	})
}

// awaitReady waits until the agent reports the proxy as ready.
func (a *agent) awaitReady(t *testing.T) {
	t.Helper()
	serving.Eventually(t, patience, "readiness", func() error { return want(get(a.status, "/healthz/ready"), 200, "") })
}

func (a *agent) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(a.process.PID(), s); err != nil {
		t.Fatal(err)
	}
}

// awaitExit waits for the end and returns the exit status.
func (a *agent) awaitExit(t *testing.T) int {
	t.Helper()
	select {
	case <-a.process.Exited():
	case <-time.After(patience):
		t.Fatal("the agent does not end")
	}
	return a.process.Exit().Status()
}

// running reports whether the agent has not exited.
func (a *agent) running() bool {
	select {
	case <-a.process.Exited():
		return false
	default:
		return true
	}
}

// envoyPID returns the PID of the Envoy in the log.
func (a *agent) envoyPID(t *testing.T) int {
	t.Helper()
	a.awaitLog(t, "envoy started\tpid=")
	_, rest, _ := strings.Cut(a.text(), "envoy started\tpid=")
	var pid int
	if _, err := fmt.Sscan(rest, &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// standInPath returns a path at which the test binary acts as a stand-in for Envoy.
func standInPath(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), fakeEnvoy)
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// answer is the response to an HTTP request; status 0 if there was none.
type answer struct {
	status int
	body   string
	header http.Header
	// closes is whether the response has connection: close.
	closes bool
	err    error
}

func get(port int, path string) answer { return call(http.MethodGet, port, path, nil) }

func call(method string, port int, path string, header http.Header) answer {
	return callHost(method, "127.0.0.1", port, path, header)
}

func callHost(method, host string, port int, path string, header http.Header) answer {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(host, strconv.Itoa(port))+path, nil)
	if err != nil {
		return answer{err: err}
	}
	if header != nil {
		r.Header = header
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{
		status: response.StatusCode,
		body:   string(body),
		header: response.Header,
		closes: response.Close,
		err:    err,
	}
}

// want compares an answer with a status and a part of the body.
func want(got answer, status int, body string) error {
	if got.err != nil {
		return got.err
	}
	if got.status != status || !strings.Contains(got.body, body) {
		return fmt.Errorf("answer %d %q; want %d %q", got.status, got.body, status, body)
	}
	return nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
