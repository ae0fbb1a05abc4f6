package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/capture/cni"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestInstallCommand runs the installer as its pod does, with environment variables, and ends it.
func TestInstallCommand(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	metrics := serving.FreePort(t)
	l.Close()
	for name, text := range map[string]string{"ca.crt": "CA", "program": "program", "net/10-net.conflist": `{"name": "n", "plugins": [{"type": "bridge"}]}`} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	variables := map[string]string{
		"MOUNTED_CNI_NET_DIR": filepath.Join(
			dir,
			"net",
		),
		"CNI_BIN_TARGET_DIR":      filepath.Join(dir, "bin"),
		"CNI_AGENT_RUN_DIR":       filepath.Join(dir, "run"),
		"SKIP_TLS_VERIFY":         "true",
		"EXCLUDE_NAMESPACES":      "a, b,",
		"POD_NAMESPACE":           "istio-system",
		"HEALTH_ADDRESS":          address,
		"MONITORING_PORT":         strconv.Itoa(metrics),
		"KUBERNETES_SERVICE_HOST": "fd00::1",
		"KUBERNETES_SERVICE_PORT": "443",
		"SERVICE_ACCOUNT":         dir,
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}
	c := newInstallCommand(lookup, func() (string, error) { return filepath.Join(dir, "program"), nil })
	c.SetArgs([]string{"--service-account", dir})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(ctx) }()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		r, err := client.Get("http://" + address + "/readyz")
		if err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %v, error %v", r, err)
		}
	}
	r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", metrics))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	for _, want := range []string{"istio_cni_install_ready 1\n", `istio_cni_installs_total{result="SUCCESS"} 1` + "\n", "go_goroutines "} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %q (error %v):\n%s", want, err, text)
		}
	}
	entry, err := os.ReadFile(filepath.Join(dir, "net/10-net.conflist"))
	if err != nil || !strings.Contains(string(entry), `"exclude_namespaces": [`) ||
		!strings.Contains(string(entry), `"pod_namespace": "istio-system"`) {
		t.Errorf("the entry: %s, error %v", entry, err)
	}
	kubeconfig, err := os.ReadFile(filepath.Join(dir, "run", cni.KubeconfigName))
	if err != nil || !strings.Contains(string(kubeconfig), "https://[fd00::1]:443") {
		t.Errorf("the kubeconfig: %s, error %v", kubeconfig, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", cni.Name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program was left behind (error %v)", err)
	}
}

func TestInstallRefuses(t *testing.T) {
	in := map[string]string{"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
	for name, c := range map[string]struct {
		variables map[string]string
		args      []string
		want      string
	}{
		"no pod":         {nil, nil, "KUBERNETES_SERVICE_HOST"},
		"a bad variable": {map[string]string{"CHAINED_CNI_PLUGIN": "perhaps"}, nil, "CHAINED_CNI_PLUGIN"},
		"a bad port":     {map[string]string{"KUBERNETES_SERVICE_HOST": "h", "KUBERNETES_SERVICE_PORT": "x"}, nil, "KUBERNETES_SERVICE_PORT"},
		"ambient":        {in, []string{"--ambient-enabled"}, "--ambient-enabled"},
		"repairing":      {in, []string{"--repair-repair-pods"}, "--repair-repair-pods"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newInstallCommand(func(name string) (string, bool) {
				value, ok := c.variables[name]
				return value, ok
			}, os.Executable)
			cmd.SetArgs(append(c.args, "--health-address=", "--monitoring-port=0"))
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}
