package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/testkit/envoy"
)

const (
	// settleTime bounds how long a change may take to show.
	settleTime = 30 * time.Second
	poll       = 20 * time.Millisecond
)

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built are the programs under test, made by the first test that needs them.
var built struct {
	once sync.Once
	dir  string
	err  error
}

func binaries(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "meshpilot-gateway-"); built.err != nil {
			return
		}
		out, err := exec.Command("go", "build", "-o", built.dir+"/", "../../cmd/pilot-discovery", "../../cmd/pilot-agent").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("go build: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// edge is a control plane and a gateway, on loopback addresses.
type edge struct {
	t     *testing.T
	dir   string // of config files
	admin string // where Envoy's own pages are
}

// start starts both, and waits until the gateway is ready.
func start(t *testing.T, discoveryFlags, discoveryEnv []string) *edge {
	t.Helper()
	proxy := envoy.Require(t)
	bin, dir := binaries(t), t.TempDir()
	ports := freePorts(t, 6)
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	e := &edge{t: t, dir: filepath.Join(dir, "config"), admin: at(2)}
	if err := os.Mkdir(e.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none")
	e.run("discovery", exec.Command(filepath.Join(bin, "pilot-discovery"), append([]string{
		"discovery", "--configDir", e.dir, "--registries=", "--meshConfig", none, "--networksConfig", none, "--grpcAddr", at(0), "--httpAddr", at(1),
		"--monitoringAddr=", "--secureGRPCAddr=", "--httpsAddr=", "--ctrlz_port", "0",
	}, discoveryFlags...)...), dir, discoveryEnv)
	proxyConfig, err := json.Marshal(map[string]any{
		"discoveryAddress": at(0), "controlPlaneAuthPolicy": "NONE", "binaryPath": proxy, "configPath": dir, "concurrency": 1,
		"proxyAdminPort": ports[2], "statusPort": ports[3], "terminationDrainDuration": "1s",
	})
	if err != nil {
		t.Fatal(err)
	}
	e.run("agent", exec.Command(filepath.Join(bin, "pilot-agent"), "proxy", "router", "--domain", "istio-system.svc.cluster.local"), dir, []string{
		"POD_NAME=gateway", "POD_NAMESPACE=istio-system", "INSTANCE_IP=127.0.0.1", "PROXY_CONFIG=" + string(proxyConfig),
		`ISTIO_METAJSON_LABELS={"istio":"ingressgateway"}`, "ISTIO_META_CLUSTER_ID=Kubernetes",
		"ENVOY_STATUS_PORT=" + strconv.Itoa(ports[4]), "ENVOY_PROMETHEUS_PORT=" + strconv.Itoa(ports[5]),
	})
	e.eventually("the gateway is ready", func() error {
		r, err := http.Get("http://" + at(4) + "/healthz/ready")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return errors.New(r.Status)
		}
		return nil
	})
	return e
}

// run starts a program that ends with the test, and shows its log if that fails.
func (e *edge) run(name string, c *exec.Cmd, dir string, env []string) {
	e.t.Helper()
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		e.t.Fatal(err)
	}
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, append(os.Environ(), env...), log, log
	if err := c.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		defer log.Close()
		_ = c.Process.Signal(syscall.SIGTERM)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = c.Wait()
		}()
		select {
		case <-ended:
		case <-time.After(settleTime):
			_ = c.Process.Kill()
			<-ended
			e.t.Errorf("%s did not end", name)
		}
		if e.t.Failed() {
			text, _ := os.ReadFile(log.Name())
			e.t.Logf("log of %s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
}

// write puts a file into the control plane's folder, whole or not at all.
func (e *edge) write(name, text string) {
	e.t.Helper()
	hidden := filepath.Join(filepath.Dir(e.dir), name)
	if err := os.WriteFile(hidden, []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(hidden, filepath.Join(e.dir, name)); err != nil {
		e.t.Fatal(err)
	}
}

// eventually waits until the check is content.
func (e *edge) eventually(what string, check func() error) {
	e.t.Helper()
	deadline := time.Now().Add(settleTime)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(poll)
	}
}

// given are the ports that tests have been told are free, whether they listen there yet or not.
var given sync.Map

// freePorts gives ports that nobody listens on now, and that no other test is given.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	var ports []int
	for len(ports) < n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			ports = append(ports, port)
		}
	}
	return ports
}
