package grpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/command"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/identity/workload"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience bounds every wait.
const patience = 30 * time.Second

// agentVar makes the test binary pilot-agent.
const agentVar = "MESHPILOT_TEST_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(agentVar) == "" {
		os.Exit(m.Run())
	}
	root := command.New(command.Options{Environ: os.Environ(), Args: os.Args[1:], Stdout: os.Stdout, Stderr: os.Stderr})
	if err := root.ExecuteContext(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// mesh is a control plane that reads files.
type mesh struct {
	t            *testing.T
	config, ca   string // directories
	http, secure string // addresses
	stop         func()
}

func newMesh(t *testing.T) *mesh {
	t.Helper()
	return &mesh{t: t, config: t.TempDir(), ca: filepath.Join(t.TempDir(), "ca"), http: serving.FreeAddress(t), secure: serving.FreeAddress(t)}
}

// start starts the control plane.
func (m *mesh) start() {
	m.t.Helper()
	o := controlplane.Options(m.t)
	o.GRPCAddr, o.HTTPAddr, o.SecureGRPCAddr = "", m.http, m.secure
	o.Registries, o.ConfigDir, o.Authority.Dir = nil, m.config, m.ca
	o.Namespace, o.PodName, o.ShutdownDuration = "istio-system", "istiod", time.Second
	p := controlplane.Launch(m.t, o)
	m.stop = p.Stop
	p.Eventually("the control plane", func() error {
		_, err := os.Stat(filepath.Join(m.ca, "root-cert.pem"))
		return errors.Join(p.Ready(), err)
	})
}

// apply replaces all objects of a name, or removes them.
func (m *mesh) apply(name, manifests string) {
	m.t.Helper()
	path := filepath.Join(m.config, name+".yaml")
	if manifests == "" {
		if err := os.Remove(path); err != nil {
			m.t.Fatal(err)
		}
		return
	}
	staged := filepath.Join(m.ca, name)
	if err := errors.Join(os.WriteFile(staged, []byte(manifests), 0o600), os.Rename(staged, path)); err != nil {
		m.t.Fatal(err)
	}
}

// application is a workload with an agent and without an Envoy.
type application struct {
	name, account, address string
	// bootstrap is the gRPC bootstrap that the agent wrote.
	bootstrap []byte
	agent     *envoy.Process
}

// join starts the agent of a workload in the namespace shop, and waits for its bootstrap and
// certificate.
func (m *mesh) join(name, account, address string) *application {
	m.t.Helper()
	dir := m.t.TempDir()
	token, err := workload.LocalMesh{CADir: m.ca, Now: time.Now}.SignToken(m.t.Context(), "shop", account, time.Hour)
	if err != nil {
		m.t.Fatal(err)
	}
	roots, err := os.ReadFile(filepath.Join(m.ca, "root-cert.pem"))
	if err != nil {
		m.t.Fatal(err)
	}
	for path, text := range map[string][]byte{"var/run/secrets/tokens/istio-token": []byte(token), "var/run/secrets/istio/root-cert.pem": roots} {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, text, 0o600)); err != nil {
			m.t.Fatal(err)
		}
	}
	_, port, _ := net.SplitHostPort(m.secure)
	_, status, _ := net.SplitHostPort(serving.FreeAddress(m.t))
	// Files are at the paths that injection sets for applications.
	file, output := filepath.Join(dir, "etc/istio/proxy/grpc-bootstrap.json"), filepath.Join(dir, "certs")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	a := &application{name: name, account: account, address: address}
	a.agent, err = envoy.Start(envoy.Command{
		Path: os.Args[0], Args: []string{"proxy", "sidecar"}, Dir: dir, Stdout: log, Stderr: log,
		Env: []string{
			agentVar + "=1", "DISABLE_ENVOY=true", "ISTIO_META_GENERATOR=grpc", "OUTPUT_CERTS=" + output, "PROXY_XDS_DEBUG_VIA_AGENT=false",
			`ISTIO_META_POD_PORTS=[{"containerPort":28080}]`, "POD_NAME=" + name, "POD_NAMESPACE=shop", "SERVICE_ACCOUNT=" + account, "INSTANCE_IP=" + address, "ISTIO_META_CLUSTER_ID=Kubernetes",
			fmt.Sprintf(`PROXY_CONFIG={"discoveryAddress":"localhost:%s","statusPort":%s,"configPath":"proxy"}`, port, status),
		},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		limit := time.NewTimer(patience)
		defer limit.Stop()
		a.agent.Stop(limit.C)
		if m.t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			m.t.Logf("the log of the agent of %s:\n%s", name, text)
		}
	})
	serving.Eventually(m.t, patience, "the agent's files", func() error {
		_, err := os.Stat(filepath.Join(output, "key.pem"))
		if err == nil {
			a.bootstrap, err = os.ReadFile(file)
		}
		return err
	})
	return a
}
