package check

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// machineFixture is a virtual machine whose checks all pass: files in a temporary directory, a control
// plane with TLS, and an Envoy that is ready and captures everything.
type machineFixture struct {
	*Machine
	authority *pki.Pair
	now       time.Time
	captured  bool
	ready     int
}

func (f *machineFixture) write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	path := filepath.Join(f.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// root returns an authority whose certificate does not end soon.
func root(name string) *pki.Pair {
	return pki.SelfSigned(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, NotAfter: time.Now().Add(365 * 24 * time.Hour),
	})
}

// token returns an unsigned JSON Web Token.
func token(issued, expires time.Time) string {
	return tokenOf(fmt.Sprintf(`{"iat":%d,"exp":%d}`, issued.Unix(), expires.Unix()))
}

// tokenOf returns an unsigned JSON Web Token with these claims.
func tokenOf(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func newMachineFixture(t *testing.T) *machineFixture {
	t.Helper()
	f := &machineFixture{authority: root("root"), now: time.Now(), captured: true, ready: http.StatusOK}
	server := f.authority.Issue(&x509.Certificate{DNSNames: []string{"istiod.istio-system.svc"}})
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{server.TLS()}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	control := &http.Server{ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = control.Serve(listener) }()
	envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(f.ready) }))
	t.Cleanup(func() {
		envoy.Close()
		control.Close()
	})
	f.Machine = &Machine{
		Root:     t.TempDir(),
		ReadyURL: envoy.URL,
		UserID:   func(string) (uint32, error) { return uint32(os.Getuid()), nil },
		LookupHost: func(_ context.Context, name string) ([]string, error) {
			if name != "istiod.istio-system.svc" {
				return nil, errors.New("no such host " + name)
			}
			return []string{"127.0.0.1"}, nil
		},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == documentationAddress && !f.captured {
				return nil, errors.New("network is unreachable")
			}
			return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
		},
		HTTP:    envoy.Client(),
		Now:     func() time.Time { return f.now },
		Timeout: 10 * time.Second,
	}
	f.write(t, environmentFile, "ISTIO_SERVICE_CIDR='*'\n", 0o644)
	f.write(t, meshFile, "defaultConfig: {discoveryAddress: 'istiod.istio-system.svc:15012'}", 0o644)
	f.write(t, rootsFile, string(f.authority.CertificatePEM()), 0o644)
	f.write(t, tokenFile, token(f.now.Add(-time.Minute), f.now.Add(time.Hour)), 0o600)
	if err := os.MkdirAll(filepath.Join(f.Root, "etc/istio/proxy"), 0o755); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMachine(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, f *machineFixture)
		// want are the checks that do not pass, as "status: condition", and a part of the detail of the first.
		want   []string
		detail string
	}{
		{name: "all is well", change: func(*testing.T, *machineFixture) {}},
		{
			name: "no user",
			change: func(_ *testing.T, f *machineFixture) {
				f.UserID = func(string) (uint32, error) { return 0, errors.New("unknown user") }
			},
			want: []string{"warn: the user istio-proxy exists", "skip: the agent can write its directories"}, detail: "1337",
		},
		{
			name:   "mesh.yaml is missing",
			change: func(t *testing.T, f *machineFixture) { os.Remove(f.path(meshFile)) },
			want: []string{
				"fail: the machine's files are there and readable by istio-proxy", "skip: mesh.yaml is valid",
				"skip: the roots of the mesh are valid", "skip: the machine has a valid token or certificate",
				"skip: the token is readable by its owner only", "skip: the agent can write its directories",
				"skip: the control plane's name resolves", "skip: the control plane answers with a certificate of the mesh's roots",
			},
			detail: meshFile,
		},
		{
			name:   "a file of another owner",
			change: func(t *testing.T, f *machineFixture) { f.write(t, meshFile, "", 0o040) },
			want:   []string{"fail: the machine's files are there and readable by istio-proxy"}, detail: "not readable",
		},
		{
			name:   "the default address of the control plane",
			change: func(t *testing.T, f *machineFixture) { f.write(t, meshFile, "defaultConfig: {}", 0o644) },
		},
		{
			name:   "mesh.yaml is not YAML",
			change: func(t *testing.T, f *machineFixture) { f.write(t, meshFile, "defaultConfig: {", 0o644) },
			want:   []string{"fail: mesh.yaml is valid"}, detail: meshFile,
		},
		{
			name: "the token has expired",
			change: func(t *testing.T, f *machineFixture) {
				f.write(t, tokenFile, token(f.now.Add(-2*time.Hour), f.now.Add(-time.Hour)), 0o600)
			},
			want: []string{"fail: the machine has a valid token or certificate"}, detail: "the token expired on",
		},
		{
			name:   "the token does not expire",
			change: func(t *testing.T, f *machineFixture) { f.write(t, tokenFile, tokenOf("{}"), 0o600) },
			want:   []string{"warn: the machine has a valid token or certificate"}, detail: "the token has no expiry",
		},
		{
			name: "the token has expired, but there is a certificate",
			change: func(t *testing.T, f *machineFixture) {
				f.write(t, tokenFile, token(f.now.Add(-2*time.Hour), f.now.Add(-time.Hour)), 0o600)
				f.write(t, certificateFile, string(f.authority.Issue(&x509.Certificate{}).CertificatePEM()), 0o644)
			},
		},
		{
			name: "the token has expired, and the certificate is not valid yet",
			change: func(t *testing.T, f *machineFixture) {
				f.write(t, tokenFile, token(f.now.Add(-2*time.Hour), f.now.Add(-time.Hour)), 0o600)
				later := f.authority.Issue(&x509.Certificate{NotBefore: f.now.Add(time.Hour), NotAfter: f.now.Add(2 * time.Hour)})
				f.write(t, certificateFile, string(later.CertificatePEM()), 0o644)
			},
			want: []string{"fail: the machine has a valid token or certificate"}, detail: "not valid before",
		},
		{
			name:   "everyone may read the token",
			change: func(t *testing.T, f *machineFixture) { os.Chmod(f.path(tokenFile), 0o644) },
			want:   []string{"fail: the token is readable by its owner only"}, detail: "0644",
		},
		{
			name:   "a directory that the agent cannot write",
			change: func(t *testing.T, f *machineFixture) { os.Remove(f.path("etc/istio/proxy")) },
			want:   []string{"fail: the agent can write its directories"}, detail: "etc/istio/proxy",
		},
		{
			name: "the clock is behind",
			change: func(t *testing.T, f *machineFixture) {
				f.write(t, tokenFile, token(f.now.Add(5*time.Minute), f.now.Add(time.Hour)), 0o600)
			},
			want: []string{"fail: the clock agrees with the control plane's token"}, detail: "behind the control plane",
		},
		{
			name: "the name does not resolve",
			change: func(t *testing.T, f *machineFixture) {
				f.write(t, meshFile, "defaultConfig: {discoveryAddress: 'elsewhere:15012'}", 0o644)
			},
			want: []string{
				"fail: the control plane's name resolves", "skip: the control plane answers with a certificate of the mesh's roots",
			},
			detail: "no such host",
		},
		{
			name: "another root",
			change: func(t *testing.T, f *machineFixture) {
				f.write(t, rootsFile, string(root("other").CertificatePEM()), 0o644)
			},
			want: []string{"fail: the control plane answers with a certificate of the mesh's roots"}, detail: "unknown authority",
		},
		{
			name:   "Envoy is not ready",
			change: func(_ *testing.T, f *machineFixture) { f.ready = http.StatusServiceUnavailable },
			want:   []string{"fail: Envoy is ready"}, detail: "503",
		},
		{
			name:   "nothing is captured",
			change: func(_ *testing.T, f *machineFixture) { f.captured = false },
			want:   []string{"fail: outbound traffic is captured"}, detail: "only Envoy accepts",
		},
		{
			name: "some addresses are captured",
			change: func(t *testing.T, f *machineFixture) {
				f.captured = false
				f.write(t, environmentFile, "ISTIO_SERVICE_CIDR=10.0.0.0/8\n", 0o644)
			},
			want: []string{"skip: outbound traffic is captured"}, detail: "10.0.0.0/8",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newMachineFixture(t)
			c.change(t, f)
			var got, details []string
			for _, r := range f.Run(t.Context()) {
				if r.Status == Pass {
					continue
				}
				if len(got) < len(c.want) || len(c.want) == 0 {
					got, details = append(got, string(r.Status)+": "+r.Check), append(details, r.Detail)
				}
				if r.Hint == "" && r.Status != Skip {
					t.Errorf("%q has no hint", r.Check)
				}
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Fatalf("got %q %q\nwant %q", got, details, c.want)
			}
			if len(details) > 0 && !strings.Contains(details[0], c.detail) {
				t.Errorf("detail %q has no %q", details[0], c.detail)
			}
		})
	}
}
