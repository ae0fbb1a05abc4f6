package controlplane

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

const meshRoots = "./var/run/secrets/istio/root-cert.pem"

func parse(t *testing.T, vars ...string) environment.Environment {
	t.Helper()
	env, err := environment.Parse(environment.ParseList(vars))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func put(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRoots tests Istio's order of precedence of roots files, and the error if the file is missing.
func TestRoots(t *testing.T) {
	for name, test := range map[string]struct {
		vars, files []string
		want, err   string
	}{
		"of the mesh":                  {files: []string{meshRoots}, want: meshRoots},
		"missing":                      {err: "roots file is missing: " + meshRoots + " (mounted from the ConfigMap istio-ca-root-cert; or set XDS_ROOT_CA and CA_ROOT_CA)"},
		"mounted":                      {files: []string{meshRoots, mountedRoots}, want: mountedRoots},
		"given":                        {vars: []string{"XDS_ROOT_CA=./own.pem"}, files: []string{meshRoots, mountedRoots, "own.pem"}, want: "./own.pem"},
		"given and missing":            {vars: []string{"XDS_ROOT_CA=./own.pem"}, files: []string{meshRoots}, err: "roots file is missing: ./own.pem"},
		"of the system":                {vars: []string{"XDS_ROOT_CA=SYSTEM"}},
		"a machine's":                  {vars: []string{"PROV_CERT=./prov"}, files: []string{meshRoots, "prov/root-cert.pem"}, want: "prov/root-cert.pem"},
		"a machine's, put where pods'": {vars: []string{"PROV_CERT=./prov"}, files: []string{meshRoots}, want: meshRoots},
		"a machine's, to come":         {vars: []string{"PROV_CERT=./prov"}, want: "prov/root-cert.pem"},
		"nobody's":                     {vars: []string{"PILOT_CERT_PROVIDER=none"}, err: "no roots configured"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for _, f := range test.files {
				put(t, f, nil)
			}
			target, err := DiscoveryTarget(&meshconfig.ProxyConfig{DiscoveryAddress: "istiod:15012", ControlPlaneAuthPolicy: meshconfig.AuthenticationPolicy_MUTUAL_TLS}, parse(t, test.vars...), "c1")
			switch {
			case test.err != "":
				if err == nil || !strings.Contains(err.Error(), "control plane istiod:15012: "+test.err) {
					t.Errorf("error %v", err)
				}
			case err != nil || target.Roots != test.want:
				t.Errorf("%q, %v; want %q", target.Roots, err, test.want)
			}
		})
	}
}

// TestTargets tests the xDS and CA servers and their credentials. A token is never sent in plain
// text.
func TestTargets(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, meshRoots, nil)
	secure, plain := meshconfig.AuthenticationPolicy_MUTUAL_TLS, meshconfig.AuthenticationPolicy_NONE
	const token = "./var/run/secrets/tokens/istio-token"
	metadata := map[string]string{"clusterid": "c1"}
	for name, test := range map[string]struct {
		address        string
		policy         meshconfig.AuthenticationPolicy
		vars           []string
		discovery      Target
		authority      Target
		there, refused bool
	}{
		"usual": {address: "istiod:15012", policy: secure,
			discovery: Target{Addresses: []string{"istiod:15012"}, Roots: meshRoots, Token: token, Metadata: metadata},
			authority: Target{Addresses: []string{"istiod:15012"}, Roots: meshRoots, Token: token, Metadata: metadata}, there: true},
		"several addresses": {address: "a:15012, b:15012", policy: secure,
			discovery: Target{Addresses: []string{"a:15012", "b:15012"}, Roots: meshRoots, Token: token, Metadata: metadata},
			authority: Target{Addresses: []string{"a:15012", "b:15012"}, Roots: meshRoots, Token: token, Metadata: metadata}, there: true},
		"plain text": {address: "istiod:15010", policy: plain, discovery: Target{Addresses: []string{"istiod:15010"}, Plaintext: true, Metadata: metadata}},
		"an authority of its own": {address: "istiod:15010", policy: plain, vars: []string{"CA_ADDR=ca:15012", "USE_TOKEN_FOR_CSR=false", "CA_HEADER_TENANT=x"},
			discovery: Target{Addresses: []string{"istiod:15010"}, Plaintext: true, Metadata: metadata},
			authority: Target{Addresses: []string{"ca:15012"}, Roots: meshRoots, Metadata: map[string]string{"clusterid": "c1", "tenant": "x"}}, there: true},
		"an authority in plain text": {address: "istiod:15012", policy: secure, vars: []string{"CA_ADDR=ca:15010"},
			discovery: Target{Addresses: []string{"istiod:15012"}, Roots: meshRoots, Token: token, Metadata: metadata},
			authority: Target{Addresses: []string{"ca:15010"}, Plaintext: true, Metadata: metadata}, there: true},
		"without tokens": {address: "istiod:15012", policy: secure, vars: []string{"JWT_POLICY=none", "PROV_CERT=./prov", "ISTIOD_SAN=istiod.example"},
			discovery: Target{Addresses: []string{"istiod:15012"}, Roots: meshRoots, ServerName: "istiod.example", Certificate: "prov/cert-chain.pem", Key: "prov/key.pem", Metadata: metadata},
			authority: Target{Addresses: []string{"istiod:15012"}, Roots: meshRoots, ServerName: "istiod.example", Certificate: "prov/cert-chain.pem", Key: "prov/key.pem", Metadata: metadata}, there: true},
		"the port of TLS in plain text": {address: "istiod:15012", policy: plain, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			config, env := &meshconfig.ProxyConfig{DiscoveryAddress: test.address, ControlPlaneAuthPolicy: test.policy}, parse(t, test.vars...)
			discovery, err := DiscoveryTarget(config, env, "c1")
			if (err != nil) != test.refused {
				t.Fatal(err)
			}
			authority, there, err := AuthorityTarget(config, env, "c1")
			if err != nil || there != test.there {
				t.Fatalf("there is an authority %v, %v", there, err)
			}
			if diff := cmp.Diff([2]Target{test.discovery, test.authority}, [2]Target{discovery, authority}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestCertificateShown tests that the agent presents its client certificate while it is valid, and
// relies on the token if it is expired or missing.
func TestCertificateShown(t *testing.T) {
	t.Chdir(t.TempDir())
	root := pki.Authority("mesh")
	put(t, "roots", root.CertificatePEM())
	target := Target{Roots: "roots", Certificate: "chain", Key: "key", Token: "token"}
	shown := func(target Target) (int, error) {
		config, err := target.tlsConfig("istiod")
		if err != nil {
			return 0, err
		}
		return len(config.Certificates), nil
	}
	if n, err := shown(target); n != 0 || err != nil {
		t.Errorf("before there is one: %d, %v", n, err)
	}
	good, old := root.Issue(&x509.Certificate{}), root.Issue(&x509.Certificate{NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})
	for p, want := range map[*pki.Pair]int{good: 1, old: 0} {
		put(t, "chain", p.CertificatePEM())
		put(t, "key", p.KeyPEM())
		if n, err := shown(target); n != want || err != nil {
			t.Errorf("one until %v: %d shown, %v", p.Certificate.NotAfter, n, err)
		}
	}
	put(t, "key", good.KeyPEM())
	put(t, "chain", old.CertificatePEM())
	if _, err := shown(target); err == nil {
		t.Error("a certificate and another one's key are shown")
	}
	target.Token = ""
	put(t, "key", old.KeyPEM())
	if n, err := shown(target); n != 1 || err != nil {
		t.Errorf("without a token: %d shown, %v", n, err)
	}
	put(t, "roots", []byte("no certificate"))
	if _, err := shown(target); err == nil || !strings.Contains(err.Error(), "no certificate in roots") {
		t.Errorf("a roots file without certificates: %v", err)
	}
}
