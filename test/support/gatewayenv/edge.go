package gatewayenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	// AgentDir is the working directory of the gateway's agent and Envoy, by default an empty one.
	AgentDir string
}

// Edge is a control plane and a gateway, on loopback addresses.
type Edge struct {
	// Dir is the control plane's folder of config files.
	Dir string
	// Logs is the folder of the logs of the control plane and of agents with their Envoys.
	Logs string
	// Admin is where Envoy's own pages are, Pages where the control plane's are, metrics too.
	Admin, Pages string

	t         testing.TB
	bin       string          // the folder of the programs
	grpc      string          // where the control plane serves proxies
	discovery func() *process // starts one
	running   *process
}

// Start starts both, and waits until the gateway is ready. Its labels are "istio: ingressgateway",
// its namespace is istio-system.
func Start(t testing.TB, o Options) *Edge {
	t.Helper()
	envoy.RequireBinary(t)
	bin, dir := programFolder(t), t.TempDir()
	ports := serving.FreePorts(t, 2)
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	e := &Edge{t: t, Dir: filepath.Join(dir, "config"), Logs: dir, Pages: at(1), bin: bin, grpc: at(0)}
	if err := os.Mkdir(e.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none")
	e.discovery = func() *process {
		c := exec.Command(filepath.Join(bin, "pilot-discovery"), append([]string{
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
		}, o.Flags...)...)
		c.Dir = dir
		return runCommand(t, "discovery", c, dir, o.Env)
	}
	e.running = e.discovery()
	if o.AgentDir == "" {
		o.AgentDir = t.TempDir()
	}
	e.Admin = e.startProxy(o.AgentDir, "gateway", "127.0.0.1", o.AgentEnv...).Admin
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
