package hostileclients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	envoykit "github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// victim is a program that is attacked.
type victim struct {
	name    string
	command envoy.Command
	process *envoy.Process
	doors   []door
	metrics string // the URL of its own metrics
	heap    string // the URL of a page that runs a garbage collection and shows the live heap; "": none
	log     string // path
	// working returns an error unless it serves.
	working func() error
}

const (
	// patience bounds every wait for a victim to start.
	patience = 60 * time.Second
	// most is the limit of a victim's memory, in KiB (ulimit -d): the machine has to survive.
	most = 6 << 20
)

// start runs the program and waits until it serves. It returns an error if the program ends.
func (v *victim) start(t *testing.T) error {
	t.Helper()
	log, err := os.OpenFile(v.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := v.command
	c.Args = append([]string{"-c", fmt.Sprintf(`ulimit -d %d; exec "$0" "$@"`, most), c.Path}, c.Args...)
	c.Path, c.Stdout, c.Stderr = "/bin/sh", log, log
	if v.process, err = envoy.Start(c); err != nil {
		t.Fatal(err)
	}
	ended := false
	serving.Eventually(t, patience, v.name+" serves", func() error {
		if ended = v.hasExited(); ended {
			return nil
		}
		return v.working()
	})
	if ended {
		return fmt.Errorf("%s %s", v.name, v.process.Exit())
	}
	return nil
}

// stop ends the program. It returns an error if it had ended before.
func (v *victim) stop() error {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-v.process.Exited():
		return fmt.Errorf("%s %s", v.name, v.process.Exit())
	default:
		v.process.Stop(limit.C)
		return nil
	}
}

func (v *victim) hasExited() bool {
	select {
	case <-v.process.Exited():
		return true
	default:
		return false
	}
}

// logSince returns the log after an offset, 16 MiB at most.
func (v *victim) logSince(offset int64) (string, error) {
	f, err := os.Open(v.log)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, offset, 16<<20))
	return string(text), err
}

func (v *victim) logEnd() string {
	text, err := v.logSince(max(0, v.logSize()-3000))
	if err != nil {
		return err.Error()
	}
	return text
}

// programPath is the program that a flag names, or else the one of this checkout.
func programPath(t *testing.T, named, name string) string {
	t.Helper()
	if named != "" {
		return named
	}
	path, err := program.Build(t.Context(), "cmd/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func newPlane(t *testing.T, kubeconfig string) *victim {
	t.Helper()
	free := func() string { return serving.FreeAddress(t) }
	grpc, secure, web, hooks, monitoring, control := free(), free(), free(), free(), free(), free()
	v := &victim{
		name: "pilot-discovery", metrics: "http://" + monitoring + "/metrics", log: filepath.Join(t.TempDir(),
			"pilot-discovery.log"),
		heap: "http://" + monitoring + "/debug/pprof/heap?gc=1&debug=1",
	}
	v.doors = []door{
		{Name: "15010", Network: "tcp", Address: grpc, GRPC: true},
		{Name: "15012", Network: "tcp", Address: secure, TLS: true, GRPC: true},
		{Name: "8080", Network: "tcp", Address: web, HTTP: true, Paths: []string{"/ready", "/debug/configz",
			"/debug/push_status"}},
		{Name: "15014", Network: "tcp", Address: monitoring, HTTP: true, Paths: []string{"/metrics", "/debug/syncz"}},
		{Name: "15017", Network: "tcp", Address: hooks, TLS: true, HTTP: true, Paths: []string{"/inject",
			"/validate", "/inject/cluster/a/net/b"}},
		{Name: "9876", Network: "tcp", Address: control, HTTP: true, Paths: []string{"/scopej/", "/scopez/"}},
	}
	path, dir := programPath(t, *planeProgram, v.name), t.TempDir()
	v.command = envoy.Command{Path: path, Dir: dir, Env: []string{"POD_NAME=istiod",
		"UNSAFE_ENABLE_ADMIN_ENDPOINTS=true", "MESHPILOT_CERT_RENEWAL_GRACE=100ms"}, Args: []string{
		"discovery", "--kubeconfig", kubeconfig, "--namespace", systemNamespace, "--networksConfig=", "--meshConfig=",
		"--grpcAddr", grpc, "--secureGRPCAddr", secure, "--httpAddr", web, "--httpsAddr", hooks,
		"--monitoringAddr", monitoring,
		"--ctrlz_address=127.0.0.1", fmt.Sprintf("--ctrlz_port=%d", port(control)),
	}}
	v.working = func() error {
		_, err := serving.Page("http://" + web + "/ready")
		for _, d := range v.doors {
			err = errors.Join(err, opens(d.Address))
		}
		return err
	}
	return v
}

// newAgent is a sidecar's agent, which has a certificate of the control plane's.
func newAgent(t *testing.T, plane *victim, roots []byte, token string) *victim {
	t.Helper()
	proxy, dir := envoykit.RequireBinary(t), envoykit.SocketDir(t)
	free := func() string { return serving.FreeAddress(t) }
	status, admin, ready, prometheus, names, debug := free(), free(), free(), free(), free(), free()
	config, err := json.Marshal(map[string]any{
		"binaryPath": proxy, "configPath": "proxy", "concurrency": 1, "discoveryAddress": plane.door("15012").Address,
		"proxyAdminPort": port(admin), "statusPort": port(status), "terminationDrainDuration": "0s",
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		"var/run/secrets/istio/root-cert.pem": roots, "var/run/secrets/tokens/istio-token": []byte(token),
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	v := &victim{name: "pilot-agent", metrics: "http://" + status + "/metrics", log: filepath.Join(t.TempDir(),
		"pilot-agent.log")}
	v.doors = []door{
		{Name: "15020", Network: "tcp", Address: status, HTTP: true, Paths: []string{"/healthz/ready",
			"/app-health/a/readyz", "/stats/prometheus", "/quitquitquit2"}},
		{Name: "15021", Network: "tcp", Address: ready, HTTP: true, Paths: []string{"/healthz/ready"}},
		{Name: "15090", Network: "tcp", Address: prometheus, HTTP: true, Paths: []string{"/stats/prometheus"}},
		{Name: "15004", Network: "tcp", Address: debug, HTTP: true, Paths: []string{"/debug/syncz"}},
		{Name: "15053 tcp", Network: "tcp", Address: names}, {Name: "15053 udp", Network: "udp", Address: names},
		{Name: "XDS", Network: "unix", Address: filepath.Join(dir, "proxy", "XDS"), GRPC: true},
		{Name: "SDS", Network: "unix", Address: filepath.Join(dir,
			"var/run/secrets/workload-spiffe-uds/socket"), GRPC: true},
	}
	path := programPath(t, *agentProgram, v.name)
	v.command = envoy.Command{Path: path, Args: []string{"proxy", "sidecar"}, Dir: dir, Env: []string{
		"PATH=" + os.Getenv("PATH"), "POD_NAME=agent", "POD_NAMESPACE=" + honestNamespace,
		"SERVICE_ACCOUNT=" + honestAccount,
		"INSTANCE_IPS=127.0.0.1", "PROXY_CONFIG=" + string(config), "ISTIOD_SAN=" + serverName,
		"ISTIO_META_CLUSTER_ID=Kubernetes",
		fmt.Sprintf("ENVOY_STATUS_PORT=%d", port(ready)), fmt.Sprintf("ENVOY_PROMETHEUS_PORT=%d", port(prometheus)),
		"ISTIO_META_DNS_CAPTURE=true", "DNS_PROXY_ADDR=" + names,
		fmt.Sprintf("PROXY_XDS_DEBUG_VIA_AGENT_PORT=%d", port(debug)),
	}}
	v.working = func() error {
		_, err := serving.Page("http://" + status + "/healthz/ready")
		_, through := serving.Page("http://" + ready + "/healthz/ready")
		_, asked := serving.Page("http://" + debug + "/debug/edsz")
		return errors.Join(err, through, asked, resolve(t.Context(), names, "udp"), resolve(t.Context(), names, "tcp"))
	}
	return v
}

func (v *victim) door(name string) door {
	for _, d := range v.doors {
		if d.Name == name {
			return d
		}
	}
	panic("there is no port " + name)
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

// bigReview is an AdmissionReview of 3 MB about a pod with a large annotation.
func bigReview() []byte {
	return bytes.Replace(podReview(), []byte(`"annotations":{`), append([]byte(`"annotations":{"big":"`),
		append(bytes.Repeat([]byte("x"), 3<<20-4096), `",`...)...), 1)
}
