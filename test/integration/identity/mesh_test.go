package identity

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh/meshtest"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

const (
	serverAddress, spyAddress = "10.96.1.1", "10.96.1.2" // of the services
	podAddress                = "10.66.1.30"             // the server's own
	toldPort                  = "8090"
	settingsFile              = "mesh.yaml" // MeshConfig
	// lifetime is the lifetime of workloads' certificates. They are renewed when only reserve of it
	// is left.
	lifetime, reserve = 30 * time.Second, 0.8
	// effectTime is the timeout of each wait for an effect.
	effectTime = 30 * time.Second
)

// world is the running mesh with its server.
type world struct {
	*mesh.Mesh
	dir string
	// signing is the authority's first signing certificate, below root.
	root, signing *pki.Pair
	// web is the authority of servers outside of the mesh.
	web *pki.Pair
}

func startWorld(t *testing.T) *world {
	t.Helper()
	netns.Require(t)
	w := &world{dir: t.TempDir(), root: pki.Authority("A"), web: pki.Authority("web")}
	w.signing = intermediate(w.root)
	bin, proxy := *programs, envoy.RequireBinary(t)
	if bin == "" {
		bin = filepath.Join(w.dir, "bin")
		if err := meshtest.Build(bin); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(w.dir)
	if err := os.Mkdir(filepath.Join(w.dir, "ca"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.putAuthority(t, w.signing, w.root)
	w.settle(t, "{}\n")
	if err := os.WriteFile(filepath.Join(w.dir, "web.pem"), w.web.CertificatePEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	pods, services := read(t, "pods.yaml"), read(t, "services.yaml")
	w.Mesh = meshtest.Start(t, mesh.Options{
		Binaries: bin, Envoy: proxy, Sidecars: true, Dir: w.dir, Progress: t.Logf,
		Manifests:        fstest.MapFS{"pods.yaml": {Data: pods}, "services.yaml": {Data: services}},
		ControlPlaneArgs: []string{"--meshConfig", filepath.Join(w.dir, settingsFile)},
		ControlPlaneEnv:  []string{"SSL_CERT_FILE=" + filepath.Join(w.dir, "web.pem")},
		AgentEnv:         []string{fmt.Sprint("SECRET_TTL=", lifetime), fmt.Sprint("SECRET_GRACE_PERIOD_RATIO=", reserve)},
	})
	w.serve(t)
	return w
}

// intermediate returns an authority below a root.
func intermediate(root *pki.Pair) *pki.Pair {
	return root.Issue(&x509.Certificate{Subject: pkix.Name{CommonName: "below " + root.Certificate.Subject.CommonName}, IsCA: true})
}

// putAuthority has the control plane sign with a pair, and roots be trusted, as operators do.
func (w *world) putAuthority(t *testing.T, signing *pki.Pair, roots ...*pki.Pair) {
	t.Helper()
	for name, text := range map[string][]byte{
		"ca-cert.pem": signing.CertificatePEM(), "ca-key.pem": signing.KeyPEM(), "cert-chain.pem": signing.CertificatePEM(), "root-cert.pem": pems(roots),
	} {
		if err := os.WriteFile(filepath.Join(w.dir, "ca", name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func pems(list []*pki.Pair) []byte {
	var text []byte
	for _, p := range list {
		text = append(text, p.CertificatePEM()...)
	}
	return text
}

// serve starts the server: one part answers for each protocol that a sidecar handles differently,
// and one part reports the requests that it received.
func (w *world) serve(t *testing.T) {
	t.Helper()
	node := w.Workload("server").Node
	s, err := echo.NewServer(echo.Options{Listen: node.Listen, Version: "v1", Ports: []echo.Ports{ports()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l, err := node.Listen("tcp", ":"+toldPort)
	if err != nil {
		t.Fatal(err)
	}
	told := &http.Server{ReadHeaderTimeout: effectTime, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // an incomplete body is not reported
		_ = json.NewEncoder(w).Encode(request{Header: r.Header, Body: string(body)})
	})}
	go func() { _ = told.Serve(l) }() // until it is closed
	t.Cleanup(func() { told.Close() })
}

func ports() echo.Ports { return echo.Ports{HTTP: 8080, HTTP2: 8082, GRPC: 7070, TCP: 9000} }

// request is a request that the server received.
type request struct {
	Header http.Header
	Body   string
}

// dial connects from the client to a service.
func (w *world) dial(address string) echo.Dial {
	return func(ctx context.Context, network, target string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(target)
		if err != nil {
			return nil, err
		}
		return w.Workload("client").Node.Dial(ctx, network, net.JoinHostPort(address, port))
	}
}

// client is a client of the server that reuses its connection.
func (w *world) client(t *testing.T) *http.Client {
	c := &http.Client{Transport: &http.Transport{DialContext: w.dial(serverAddress), MaxIdleConnsPerHost: 1}, Timeout: effectTime}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// writeConfig brings objects to the control plane; "" takes them away.
func (w *world) writeConfig(t *testing.T, name, text string) {
	t.Helper()
	staged := filepath.Join(w.dir, "staged.yaml")
	if err := os.WriteFile(staged, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(staged, filepath.Join(w.dir, "config", name+".yaml")); err != nil {
		t.Fatal(err)
	}
}

// peers sets the mutual TLS mode of the server, and waits until the server enforces it, which
// happens after its callers are updated.
func (w *world) peers(t *testing.T, mode string) {
	t.Helper()
	w.writeConfig(t, "peers", "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: default, namespace: default}\nspec: {mtls: {mode: "+mode+"}}\n")
	serving.Eventually(t, effectTime, "the server takes "+mode, func() error {
		text, err := w.inbound(t.Context())
		if err != nil {
			return err
		}
		mutual, only := contains(text, `"0.0.0.0_8090_mtls"`), contains(text, `"0.0.0.0_8090_mtls_any"`)
		if mutual != (mode != "DISABLE") || only != (mode == "STRICT") {
			return fmt.Errorf("mutual TLS %t, alone %t", mutual, only)
		}
		return nil
	})
	serving.Eventually(t, effectTime, "the client calls by "+mode, func() error { // connections from before end with their next answer
		if mutual := w.postSecret(t, "", "").Header.Get(clientCert) != ""; mutual != (mode != "DISABLE") {
			return fmt.Errorf("mutual TLS %t", mutual)
		}
		return nil
	})
}

// inbound returns the current inbound listener of the server's sidecar, from Envoy.
func (w *world) inbound(ctx context.Context) (string, error) {
	text, err := admin(ctx, w.Workload("server").Node, "/config_dump?resource=dynamic_listeners&name_regex=virtualInbound")
	if err != nil {
		return "", err
	}
	var dump struct {
		Configs []struct {
			Active json.RawMessage `json:"active_state"` // a draining listener is listed too
		}
	}
	if err := json.Unmarshal([]byte(text), &dump); err != nil || len(dump.Configs) != 1 {
		return "", fmt.Errorf("%d listeners: %w", len(dump.Configs), err)
	}
	return string(dump.Configs[0].Active), nil
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
