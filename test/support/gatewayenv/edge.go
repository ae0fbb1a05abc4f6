package gatewayenv

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// settleTime bounds how long a change may take to show.
const settleTime = 30 * time.Second

// Options are additional settings of the control plane and the agent.
type Options struct {
	Flags, Env []string
	// AgentEnv is variables of the gateway's agent.
	AgentEnv []string
}

// Edge is a control plane and a gateway, on loopback addresses.
type Edge struct {
	// Dir is the control plane's folder of config files.
	Dir string
	// Admin is where Envoy's own pages are, Pages where the control plane's are, metrics too.
	Admin, Pages string

	t         testing.TB
	discovery func() *process // starts one
	running   *process
}

// Start starts both, and waits until the gateway is ready. Its labels are "istio: ingressgateway",
// its namespace is istio-system.
func Start(t testing.TB, o Options) *Edge {
	t.Helper()
	proxy := envoy.RequireBinary(t)
	bin, dir := programFolder(t), t.TempDir()
	ports := serving.FreePorts(t, 6)
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	e := &Edge{t: t, Dir: filepath.Join(dir, "config"), Admin: at(2), Pages: at(1)}
	if err := os.Mkdir(e.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none")
	e.discovery = func() *process {
		return runCommand(t, "discovery", exec.Command(filepath.Join(bin, "pilot-discovery"), append([]string{
			"discovery",
			"--configDir",
			e.Dir,
			"--registries=",
			"--meshConfig",
			none,
			"--networksConfig",
			none,
			"--grpcAddr",
			at(0),
			"--httpAddr",
			at(1),
			"--monitoringAddr=",
			"--secureGRPCAddr=",
			"--httpsAddr=",
			"--ctrlz_port",
			"0",
		}, o.Flags...)...), dir, o.Env)
	}
	e.running = e.discovery()
	proxyConfig, err := json.Marshal(map[string]any{
		"discoveryAddress":         at(0),
		"controlPlaneAuthPolicy":   "NONE",
		"binaryPath":               proxy,
		"configPath":               dir,
		"concurrency":              1,
		"proxyAdminPort":           ports[2],
		"statusPort":               ports[3],
		"terminationDrainDuration": "1s",
	})
	if err != nil {
		t.Fatal(err)
	}
	runCommand(
		t,
		"agent",
		exec.Command(filepath.Join(bin, "pilot-agent"), "proxy", "router", "--domain", "istio-system.svc.cluster.local"),
		dir,
		append([]string{
			"POD_NAME=gateway",
			"POD_NAMESPACE=istio-system",
			"INSTANCE_IP=127.0.0.1",
			"PROXY_CONFIG=" + string(proxyConfig),
			`ISTIO_METAJSON_LABELS={"istio":"ingressgateway"}`,
			"ISTIO_META_CLUSTER_ID=Kubernetes",
			"ENVOY_STATUS_PORT=" + strconv.Itoa(ports[4]),
			"ENVOY_PROMETHEUS_PORT=" + strconv.Itoa(ports[5]),
		}, o.AgentEnv...),
	)
	Eventually(t, "the gateway is ready", func() error { return checkStatus("http://" + at(4) + "/healthz/ready") })
	return e
}

// Restart ends the control plane and starts it again, and waits until it is ready.
func (e *Edge) Restart() {
	e.t.Helper()
	e.running.endProcess()
	e.running = e.discovery()
	Eventually(e.t, "the control plane is ready", func() error { return checkStatus("http://" + e.Pages + "/ready") })
}

func checkStatus(url string) error {
	_, err := serving.Page(url)
	return err
}

// Write puts a file into the control plane's folder, whole or not at all.
func (e *Edge) Write(name, text string) {
	e.t.Helper()
	hidden := filepath.Join(filepath.Dir(e.Dir), name)
	if err := os.WriteFile(hidden, []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(hidden, filepath.Join(e.Dir, name)); err != nil {
		e.t.Fatal(err)
	}
}

// Eventually waits until the check is content.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	serving.Eventually(t, settleTime, what, check)
}

// process is a program that runs until its test ends, at the latest.
type process struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
}

// runCommand starts a program that ends with the test, and shows its log if that fails.
func runCommand(t testing.TB, name string, c *exec.Cmd, dir string, env []string) *process {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(os.Environ(), env...), log, log
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, name: name, cmd: c, ended: make(chan struct{})}
	go func() {
		defer close(p.ended)
		_ = c.Wait() // how it ended is in its log
	}()
	t.Cleanup(func() {
		defer log.Close()
		p.endProcess()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of %s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return p
}

func (p *process) endProcess() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(settleTime):
		_ = p.cmd.Process.Kill()
		<-p.ended
		p.t.Errorf("%s did not end", p.name)
	}
}
