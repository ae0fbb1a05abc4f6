package gatewayenv

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Proxy is one proxy of the gateway: an agent with its Envoy.
type Proxy struct {
	// Admin is where Envoy's own pages are.
	Admin string

	agent *process
}

// StartProxy starts a proxy of the gateway with a name and an address of its own, and variables of its
// agent, and waits until it is ready. It ends with the test, if not before. Envoy listens on all
// addresses: for a second proxy, an EnvoyFilter must change the address of its listeners.
func (e *Edge) StartProxy(name, address string, env ...string) *Proxy {
	e.t.Helper()
	return e.startProxy(e.t.TempDir(), name, address, env...)
}

// startProxy is StartProxy in the working directory dir.
func (e *Edge) startProxy(dir, name, address string, env ...string) *Proxy {
	e.t.Helper()
	ports := serving.FreePorts(e.t, 4)
	config, err := json.Marshal(map[string]any{
		"discoveryAddress":         e.grpc,
		"controlPlaneAuthPolicy":   "NONE",
		"binaryPath":               envoy.RequireBinary(e.t),
		"configPath":               dir,
		"concurrency":              1,
		"proxyAdminPort":           ports[0],
		"statusPort":               ports[1],
		"terminationDrainDuration": "1s",
	})
	if err != nil {
		e.t.Fatal(err)
	}
	program := filepath.Join(e.bin, "pilot-agent")
	agent := exec.Command(program, "proxy", "router", "--domain", "istio-system.svc.cluster.local")
	agent.Dir = dir
	p := &Proxy{
		Admin: "127.0.0.1:" + strconv.Itoa(ports[0]),
		agent: runCommand(e.t, name, agent, e.Logs, append([]string{
			"POD_NAME=" + name,
			"POD_NAMESPACE=istio-system",
			"INSTANCE_IP=" + address,
			"PROXY_CONFIG=" + string(config),
			`ISTIO_METAJSON_LABELS={"istio":"ingressgateway"}`,
			"ISTIO_META_CLUSTER_ID=Kubernetes",
			"ENVOY_STATUS_PORT=" + strconv.Itoa(ports[2]),
			"ENVOY_PROMETHEUS_PORT=" + strconv.Itoa(ports[3]),
		}, env...)),
	}
	ready := "http://127.0.0.1:" + strconv.Itoa(ports[2]) + "/healthz/ready"
	Eventually(e.t, name+" is ready", func() error { return checkStatus(ready) })
	return p
}

// Stop ends the proxy as Kubernetes does, with SIGTERM, and waits until its agent has drained it.
func (p *Proxy) Stop() { p.agent.endProcess() }
