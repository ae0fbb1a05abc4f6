package controlplane

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/perf/fleet"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// agent is a real pilot-agent with a real Envoy.
type agent struct{ admin string }

// startGateway starts a gateway for a control plane that may start later. It ends with the test.
func startGateway(t *testing.T, discovery string) agent {
	t.Helper()
	return startAgent(t, discovery, "router", "istio-system")
}

// startAgent starts an agent as a sidecar or a router.
func startAgent(t *testing.T, discovery, role, namespace string) agent {
	t.Helper()
	proxy := envoy.RequireBinary(t)
	binary, err := program.Build(t.Context(), "cmd/pilot-agent")
	if err != nil {
		t.Fatal(err)
	}
	dir, ports := t.TempDir(), serving.FreePorts(t, 4)
	config, err := json.Marshal(map[string]any{
		"discoveryAddress": discovery, "controlPlaneAuthPolicy": "NONE", "binaryPath": proxy, "configPath": dir, "concurrency": 1,
		"proxyAdminPort": ports[0], "statusPort": ports[1], "terminationDrainDuration": "1s",
	})
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "proxy", role, "--domain", namespace+".svc.cluster.local")
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append(os.Environ(), "POD_NAME="+role, "POD_NAMESPACE="+namespace, "INSTANCE_IP=127.0.0.1",
		"PROXY_CONFIG="+string(config),
		`ISTIO_METAJSON_LABELS={"istio":"ingressgateway"}`, "ISTIO_META_CLUSTER_ID=Kubernetes",
		"ENVOY_STATUS_PORT="+strconv.Itoa(ports[2]), "ENVOY_PROMETHEUS_PORT="+strconv.Itoa(ports[3]))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in its log
	}()
	t.Cleanup(func() {
		defer log.Close()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("the end of the agent's log:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return agent{admin: "http://127.0.0.1:" + strconv.Itoa(ports[0])}
}

// stat returns a counter or gauge of the Envoy.
func (a agent) stat(t *testing.T, name string) int {
	t.Helper()
	text, err := serving.Page(a.admin + "/stats?filter=^" + name + "$")
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(strings.TrimSpace(text), ": ")
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatalf("%s: %q", name, text)
	}
	return n
}

// total returns how many resources were sent or removed.
func total(types map[string]fleet.Traffic) (n int64) {
	for _, traffic := range types {
		n += traffic.Resources + traffic.Removed
	}
	return n
}
