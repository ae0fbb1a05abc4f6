package diskfull

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/identity/workload"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	envoykit "github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience bounds every wait.
const patience = 60 * time.Second

// TestAgent runs an agent with its Envoy, whose working directory and OUTPUT_CERTS are on a disk that fills up, becomes read-only and
// recovers, while certificates are renewed every few seconds. Envoy stays ready and has each new certificate; the files keep the last
// pair that was written whole, until there is space again.
func TestAgent(t *testing.T) {
	longtest.Test(t)
	rounds := scorecard.BySize(1, 5, 50)
	check := scorecard.Check(t, 26, scorecard.Size("rounds with an agent and its Envoy", rounds))
	d := newDisk(t)
	a := newSidecar(t, d)
	a.start(t)
	a.awaitReady(t)
	renewals := 0
	for range rounds {
		for what, spoil := range map[string]func(func()){"full": d.fillWhile, "read-only": d.remountWhile} {
			var before string
			spoil(func() {
				before = a.outputSerial(t)
				inEnvoy := a.envoySerials(t)
				serving.Eventually(t, patience, "Envoy has a new certificate on a "+what+" disk", func() error {
					if now := a.envoySerials(t); now == inEnvoy {
						return fmt.Errorf("it has %s", now)
					}
					return nil
				})
				renewals++
				a.awaitReady(t)
				if now := a.outputSerial(t); now != before {
					t.Errorf("on a %s disk a certificate was written", what)
				}
			})
			serving.Eventually(t, patience, "a certificate is written again", func() error {
				if a.outputSerial(t) == before {
					return errors.New("it is the same")
				}
				return nil
			})
		}
	}
	check.Measured("renewals while nothing could be written", renewals)
	if log := a.log(t); !strings.Contains(log, "OUTPUT_CERTS") || !strings.Contains(log, "no space left") {
		t.Errorf("the log does not name the file that could not be written:\n%s", log)
	}
}

// TestAgentStartsOnAFullDisk: an agent that cannot write Envoy's bootstrap ends with an error that
// names the file, leaves no partial file, and starts when space is free.
func TestAgentStartsOnAFullDisk(t *testing.T) {
	longtest.Test(t)
	scorecard.Check(t, 26, scorecard.Size("first starts of an agent", 1))
	d := newDisk(t)
	a := newSidecar(t, d)
	d.fillWhile(func() {
		a.start(t)
		limit := time.NewTimer(patience)
		defer limit.Stop()
		select {
		case <-a.process.Exited():
		case <-limit.C:
			t.Fatalf("the agent runs although it cannot write:\n%s", a.log(t))
		}
		if log := a.log(t); !strings.Contains(log, "no space left") || !strings.Contains(log, "write bootstrap") {
			t.Errorf("the agent does not name the file that it could not write:\n%s", log)
		}
		files, err := filepath.Glob(filepath.Join(a.dir, "proxy", "*"))
		if err != nil || len(files) > 0 {
			t.Errorf("left behind: %v, %v", files, err)
		}
	})
	a.start(t)
	a.awaitReady(t)
}

// fillWhile keeps the disk full while f runs.
func (d *disk) fillWhile(f func()) {
	d.t.Helper()
	d.fill()
	defer d.free()
	f()
}

// client is the workload that the agent belongs to.
const client = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: client, namespace: shop}\n" +
	"spec: {address: 127.0.0.1, serviceAccount: client}\n"

// sidecar is an agent process with a real Envoy, beside a control plane of this process.
type sidecar struct {
	bin, dir, logFile string
	env               []string
	status, admin     int
	process           *envoy.Process
}

// newSidecar starts a control plane and prepares an agent with dir on the disk. Its log is elsewhere.
func newSidecar(t *testing.T, d *disk) *sidecar {
	t.Helper()
	proxy, elsewhere := envoykit.RequireBinary(t), t.TempDir()
	bin, err := program.Build(t.Context(), "cmd/pilot-agent")
	if err != nil {
		t.Fatal(err)
	}
	o := controlplane.Options(t)
	o.ConfigDir, o.SecureGRPCAddr, o.Registries = t.TempDir(), serving.FreeAddress(t), nil
	o.Authority.Dir = filepath.Join(elsewhere, "ca")
	write(t, filepath.Join(o.ConfigDir, "client.yaml"), client)
	controlplane.Start(t, o)
	token, err := workload.LocalMesh{CADir: o.Authority.Dir, Now: time.Now}.SignToken(t.Context(), "shop", "client", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	roots, err := os.ReadFile(filepath.Join(o.Authority.Dir, "root-cert.pem"))
	if err != nil {
		t.Fatal(err)
	}
	a := &sidecar{bin: bin, dir: filepath.Join(d.path, "agent"), logFile: filepath.Join(elsewhere, "log")}
	for path, text := range map[string]string{"var/run/secrets/tokens/istio-token": token, "var/run/secrets/istio/root-cert.pem": string(roots)} {
		path = filepath.Join(a.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	ports := serving.FreePorts(t, 4)
	a.status, a.admin = ports[0], ports[1]
	_, secure, _ := net.SplitHostPort(o.SecureGRPCAddr)
	config, err := json.Marshal(map[string]any{
		"discoveryAddress": "localhost:" + secure, "binaryPath": proxy, "configPath": "proxy", "concurrency": 1,
		"proxyAdminPort": a.admin, "statusPort": a.status, "terminationDrainDuration": "0s",
	})
	if err != nil {
		t.Fatal(err)
	}
	a.env = []string{
		"PATH=" + os.Getenv("PATH"), "POD_NAME=client", "POD_NAMESPACE=shop", "SERVICE_ACCOUNT=client", "INSTANCE_IP=127.0.0.1",
		"ISTIO_META_CLUSTER_ID=Kubernetes", "PROXY_CONFIG=" + string(config), "SECRET_TTL=4s", "OUTPUT_CERTS=certs",
		"ENVOY_STATUS_PORT=" + strconv.Itoa(ports[2]), "ENVOY_PROMETHEUS_PORT=" + strconv.Itoa(ports[3]),
	}
	return a
}

func (a *sidecar) start(t *testing.T) {
	t.Helper()
	log, err := os.Create(a.logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	a.process, err = envoy.Start(envoy.Command{Path: a.bin, Args: []string{"proxy", "sidecar"}, Env: a.env, Dir: a.dir, Stdout: log, Stderr: log})
	if err != nil {
		t.Fatal(err)
	}
	started := a.process
	t.Cleanup(func() {
		limit := time.NewTimer(patience)
		defer limit.Stop()
		started.Stop(limit.C)
		if t.Failed() {
			t.Logf("log of the agent:\n%s", a.log(t))
		}
	})
}

func (a *sidecar) log(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(a.logFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (a *sidecar) awaitReady(t *testing.T) {
	t.Helper()
	serving.Eventually(t, patience, "the proxy is ready", func() error {
		_, err := serving.Page(fmt.Sprintf("http://127.0.0.1:%d/healthz/ready", a.status))
		return err
	})
}

// envoySerials returns the serial numbers of the certificates that Envoy uses.
func (a *sidecar) envoySerials(t *testing.T) string {
	t.Helper()
	var list struct {
		Certificates []struct {
			Chain []struct {
				Serial string `json:"serial_number"`
			} `json:"cert_chain"`
		}
	}
	var serials []string
	serving.Eventually(t, patience, "Envoy's certificates", func() error {
		page, err := serving.Page(fmt.Sprintf("http://127.0.0.1:%d/certs", a.admin))
		if err == nil {
			err = json.Unmarshal([]byte(page), &list)
		}
		if err != nil {
			return err
		}
		for _, c := range list.Certificates {
			if len(c.Chain) > 0 {
				serials = append(serials, c.Chain[0].Serial)
			}
		}
		if len(serials) == 0 {
			return errors.New("no files exist")
		}
		return nil
	})
	return strings.Join(serials, " ")
}

// outputSerial returns the serial number of the certificate in OUTPUT_CERTS. It fails the test if the certificate and the key do not
// belong together for a second. They do not for a moment while the agent replaces first the key and then the certificate.
func (a *sidecar) outputSerial(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(a.dir, "certs")
	var pair tls.Certificate
	serving.Eventually(t, time.Second, "OUTPUT_CERTS has a certificate and its key", func() (err error) {
		pair, err = tls.LoadX509KeyPair(filepath.Join(dir, "cert-chain.pem"), filepath.Join(dir, "key.pem"))
		return err
	})
	return pair.Leaf.SerialNumber.String()
}
