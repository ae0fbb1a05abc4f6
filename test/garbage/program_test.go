package garbage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/agent/command"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/internal/testkit/cluster"
	envoykit "github.com/meshpilot/meshpilot/internal/testkit/envoy"
	"github.com/meshpilot/meshpilot/internal/testkit/serving"
)

// The test binary is both programs, too.
const (
	agentVar = "MESHPILOT_TEST_AGENT"
	planeVar = "MESHPILOT_TEST_PLANE"
)

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var err error
	switch {
	case os.Getenv(planeVar) != "":
		err = runPlane(ctx)
	case os.Getenv(agentVar) != "":
		err = command.New(command.Options{Environ: os.Environ(), Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr}).ExecuteContext(ctx)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// planeAddresses are the ports of a control plane.
type planeAddresses struct {
	GRPC, Secure, HTTP, HTTPS, Monitoring string
	Control                               uint16
	Kubeconfig, Namespace                 string
}

func runPlane(ctx context.Context) error {
	var a planeAddresses
	if err := json.Unmarshal([]byte(os.Getenv(planeVar)), &a); err != nil {
		return err
	}
	o := discovery.Defaults()
	o.GRPCAddr, o.SecureGRPCAddr, o.HTTPAddr, o.HTTPSAddr, o.MonitoringAddr = a.GRPC, a.Secure, a.HTTP, a.HTTPS, a.Monitoring
	o.ControlZHost, o.ControlZPort = "127.0.0.1", a.Control
	o.MeshConfigFile, o.NetworksConfigFile = "", ""
	o.Kubernetes.Kubeconfig = a.Kubeconfig
	o.Namespace, o.PodName = a.Namespace, "istiod"
	o.Logs.Out = os.Stdout
	if err := o.Validate(); err != nil {
		return err
	}
	return discovery.Run(ctx, o)
}

// program is one that is attacked.
type program struct {
	name    string
	process *envoy.Process
	doors   []door
	metrics string // address of its own metrics
	// working fails the test unless it serves.
	working func(t *testing.T)
	before  measure
	address map[string]string
}

// measure is what a program has: memory in MiB.
type measure struct{ memory, goroutines, files int64 }

func (p *program) measure(t *testing.T) measure {
	t.Helper()
	text, err := serving.Page(p.metrics)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^(?:istio_agent_)?go_goroutines (\d+)`).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no go_goroutines in %s", p.metrics)
	}
	n, _ := strconv.ParseInt(found[1], 10, 64)
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.process.PID()))
	if err != nil {
		t.Fatal(err)
	}
	return measure{memory: p.resident(), goroutines: n, files: int64(len(files))}
}

// resident is the program's memory in MiB, 0 if it is gone.
func (p *program) resident() int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.process.PID()))
	if err != nil {
		return 0
	}
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindStringSubmatch(string(text))
	if found == nil {
		return 0
	}
	n, _ := strconv.ParseInt(found[1], 10, 64)
	return n >> 10
}

// settle waits until the number of goroutines stays as it is.
func (p *program) settle(t *testing.T) {
	t.Helper()
	last := int64(-1)
	serving.Eventually(t, patience, p.name+" comes to rest", func() error {
		now := p.measure(t).goroutines
		was := last
		last = now
		time.Sleep(200 * time.Millisecond)
		if now != was {
			return fmt.Errorf("%d goroutines, and %d", was, now)
		}
		return nil
	})
}

func start(t *testing.T, name string, args, env []string, dir string) *envoy.Process {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p, err := envoy.Start(envoy.Command{Path: os.Args[0], Args: args, Env: env, Dir: dir, Stdout: log, Stderr: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		limit := time.NewTimer(patience)
		defer limit.Stop()
		select {
		case <-p.Exited():
			t.Errorf("%s %s", name, p.Exit())
		default:
			p.Stop(limit.C)
		}
		if t.Failed() {
			text, _ := os.ReadFile(path)
			t.Logf("the end of the log of %s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return p
}

func startPlane(t *testing.T) *program {
	t.Helper()
	c := cluster.Start(t, cluster.Options{})
	free := func() string { return serving.FreeAddress(t) }
	a := planeAddresses{GRPC: free(), Secure: free(), HTTP: free(), HTTPS: free(), Monitoring: free(), Control: uint16(serving.FreePort(t)), Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace(t, "istio-system", nil)}
	js, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	control := fmt.Sprintf("127.0.0.1:%d", a.Control)
	p := &program{name: "pilot-discovery", metrics: "http://" + a.Monitoring + "/metrics", address: map[string]string{"grpc": a.GRPC}}
	p.doors = []door{
		{name: "15010", network: "tcp", address: a.GRPC}, {name: "15012", network: "tcp", address: a.Secure, tls: true},
		{name: "8080", network: "tcp", address: a.HTTP, paths: []string{"/ready", "/debug/configz", "/debug/push_status"}},
		{name: "15014", network: "tcp", address: a.Monitoring, paths: []string{"/metrics", "/debug/syncz"}},
		{name: "15017", network: "tcp", address: a.HTTPS, tls: true, paths: []string{"/inject", "/validate", "/inject/cluster/a/net/b"}},
		{name: "9876", network: "tcp", address: control, paths: []string{"/scopej/", "/scopez/"}},
	}
	p.process = start(t, p.name, nil, []string{planeVar + "=" + string(js), "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, t.TempDir())
	p.working = func(t *testing.T) {
		t.Helper()
		serving.Eventually(t, patience, "the control plane", func() error {
			_, err := serving.Page("http://" + a.HTTP + "/ready")
			for _, d := range p.doors {
				err = errors.Join(err, opens(d.address))
			}
			return err
		})
	}
	p.working(t)
	return p
}

func startAgent(t *testing.T, plane *program) *program {
	t.Helper()
	binary, dir := envoykit.Require(t), t.TempDir()
	free := func() string { return serving.FreeAddress(t) }
	status, admin, ready, prometheus, names, debug := free(), free(), free(), free(), free(), free()
	config, err := json.Marshal(map[string]any{
		"binaryPath": binary, "configPath": "proxy", "concurrency": 1, "discoveryAddress": plane.address["grpc"], "controlPlaneAuthPolicy": "NONE",
		"proxyAdminPort": port(admin), "statusPort": port(status), "terminationDrainDuration": "0s",
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &program{name: "pilot-agent", metrics: "http://" + status + "/metrics"}
	p.process = start(t, p.name, []string{"proxy", "sidecar"}, []string{
		agentVar + "=1", "PATH=" + os.Getenv("PATH"), "POD_NAME=a", "POD_NAMESPACE=ns", "INSTANCE_IPS=127.0.0.1", "PROXY_CONFIG=" + string(config),
		fmt.Sprintf("ENVOY_STATUS_PORT=%d", port(ready)), fmt.Sprintf("ENVOY_PROMETHEUS_PORT=%d", port(prometheus)),
		"ISTIO_META_DNS_CAPTURE=true", "DNS_PROXY_ADDR=" + names, fmt.Sprintf("PROXY_XDS_DEBUG_VIA_AGENT_PORT=%d", port(debug)),
	}, dir)
	p.doors = []door{
		{name: "15020", network: "tcp", address: status, paths: []string{"/healthz/ready", "/app-health/a/readyz", "/stats/prometheus", "/quitquitquit2"}},
		{name: "15021", network: "tcp", address: ready, paths: []string{"/healthz/ready"}}, {name: "15090", network: "tcp", address: prometheus},
		{name: "15004", network: "tcp", address: debug, paths: []string{"/debug/syncz"}},
		{name: "DNS", network: "tcp", address: names}, {name: "DNS", network: "udp", address: names},
		{name: "XDS", network: "unix", address: filepath.Join(dir, "proxy", "XDS")},
		{name: "SDS", network: "unix", address: filepath.Join(dir, "var/run/secrets/workload-spiffe-uds/socket")},
	}
	p.working = func(t *testing.T) {
		t.Helper()
		serving.Eventually(t, patience, "the agent", func() error {
			_, err := serving.Page("http://" + status + "/healthz/ready")
			_, through := serving.Page("http://" + ready + "/healthz/ready")
			_, asked := serving.Page("http://" + debug + "/debug/syncz")
			if asked != nil && strings.Contains(asked.Error(), "403") {
				asked = nil // it is passed on, and the control plane wants to know who asks
			}
			return errors.Join(err, through, asked, resolves(names))
		})
	}
	p.working(t)
	return p
}

func resolves(address string) error {
	q := new(dns.Msg)
	q.SetQuestion("localhost.", dns.TypeA)
	for _, network := range []string{"udp", "tcp"} {
		if _, _, err := (&dns.Client{Net: network, Timeout: 2 * time.Second}).Exchange(q, address); err != nil {
			return err
		}
	}
	return nil
}

func opens(address string) error {
	c, err := net.DialTimeout("tcp", address, dialTime)
	if err != nil {
		return err
	}
	return c.Close()
}

func port(address string) uint16 {
	_, text, _ := net.SplitHostPort(address)
	n, _ := strconv.ParseUint(text, 10, 16)
	return uint16(n)
}
