package garbage

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/testkit/cluster"
	envoykit "github.com/meshpilot/meshpilot/internal/testkit/envoy"
	"github.com/meshpilot/meshpilot/internal/testkit/program"
	"github.com/meshpilot/meshpilot/internal/testkit/serving"
)

// victim is a program that is attacked.
type victim struct {
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

func (p *victim) measure(t *testing.T) measure {
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
func (p *victim) resident() int64 {
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
func (p *victim) settle(t *testing.T) {
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

// start builds a program of ours and runs it until the test ends.
func start(t *testing.T, name string, args, env []string, dir string) *envoy.Process {
	t.Helper()
	binary, err := program.Build(t.Context(), "cmd/"+name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p, err := envoy.Start(envoy.Command{Path: binary, Args: args, Env: env, Dir: dir, Stdout: log, Stderr: log})
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

func startPlane(t *testing.T) *victim {
	t.Helper()
	c := cluster.Start(t, cluster.Options{})
	free := func() string { return serving.FreeAddress(t) }
	grpc, secure, web, hooks, monitoring, control := free(), free(), free(), free(), free(), free()
	p := &victim{name: "pilot-discovery", metrics: "http://" + monitoring + "/metrics", address: map[string]string{"grpc": grpc}}
	p.doors = []door{
		{name: "15010", network: "tcp", address: grpc}, {name: "15012", network: "tcp", address: secure, tls: true},
		{name: "8080", network: "tcp", address: web, paths: []string{"/ready", "/debug/configz", "/debug/push_status"}},
		{name: "15014", network: "tcp", address: monitoring, paths: []string{"/metrics", "/debug/syncz"}},
		{name: "15017", network: "tcp", address: hooks, tls: true, paths: []string{"/inject", "/validate", "/inject/cluster/a/net/b"}},
		{name: "9876", network: "tcp", address: control, paths: []string{"/scopej/", "/scopez/"}},
	}
	p.process = start(t, p.name, []string{
		"discovery", "--kubeconfig", c.Kubeconfig(), "--namespace", c.Namespace(t, "istio-system", nil), "--meshConfig=", "--networksConfig=",
		"--grpcAddr", grpc, "--secureGRPCAddr", secure, "--httpAddr", web, "--httpsAddr", hooks, "--monitoringAddr", monitoring,
		"--ctrlz_address=127.0.0.1", fmt.Sprintf("--ctrlz_port=%d", port(control)),
	}, []string{"POD_NAME=istiod"}, t.TempDir())
	p.working = func(t *testing.T) {
		t.Helper()
		serving.Eventually(t, patience, "the control plane", func() error {
			_, err := serving.Page("http://" + web + "/ready")
			for _, d := range p.doors {
				err = errors.Join(err, opens(d.address))
			}
			return err
		})
	}
	p.working(t)
	return p
}

func startAgent(t *testing.T, plane *victim) *victim {
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
	p := &victim{name: "pilot-agent", metrics: "http://" + status + "/metrics"}
	p.process = start(t, p.name, []string{"proxy", "sidecar"}, []string{
		"PATH=" + os.Getenv("PATH"), "POD_NAME=a", "POD_NAMESPACE=ns", "INSTANCE_IPS=127.0.0.1", "PROXY_CONFIG=" + string(config),
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
