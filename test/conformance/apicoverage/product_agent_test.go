package apicoverage

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/meshpilot/meshpilot/internal/agent"
	"github.com/meshpilot/meshpilot/internal/agent/command"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// agentProduct is what Envoy starts with: its arguments and its bootstrap, made by "pilot-agent proxy" of the inputs of
// the case beside those of bootstrap/sidecar.txtar. The copy of the ProxyConfig in the node's metadata is left out:
// every field is in it, whether anything reads it or not.
func agentProduct(t testing.TB, c *Case) string {
	base, err := txtar.ParseFile(filepath.Join(root, "internal/agent/command/testdata/bootstrap/sidecar.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	back, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chdir(dir); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chdir(back); err != nil {
			t.Fatal(err)
		}
	}()
	var env []string
	args := []string{"proxy", "sidecar"}
	for _, f := range slices.Concat(base.Files, c.archive.Files) {
		switch {
		case f.Name == "env":
			env = append(env, strings.Split(strings.TrimSpace(string(f.Data)), "\n")...)
		case f.Name == "args":
			args = strings.Fields(string(f.Data))
		case strings.Contains(f.Name, "/"):
			writeFile(t, f.Name, f.Data)
		}
	}
	for name, text := range certificates() {
		writeFile(t, "etc/certs/"+name, text)
	}
	started, err := prepared(t.Context(), env, args)
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := os.ReadFile(started.Args[slices.Index(started.Args, "-c")+1])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append([]string{started.Path}, started.Args...), " ") + "\n" + withoutProxyConfig(t, text)
}

// certificates returns the files that cases with TLS name, the same ones for every case.
var certificates = sync.OnceValue(func() map[string][]byte {
	own := pki.SelfSigned(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature})
	return map[string][]byte{
		"cert.pem": own.CertificatePEM(), "roots.pem": own.CertificatePEM(), "crl.pem": own.Revoke(), "key.pem": own.KeyPEM(),
	}
})

func prepared(ctx context.Context, environ, args []string) (started envoy.Command, err error) {
	var out bytes.Buffer
	cmd := command.NewWithRunner(command.Options{Environ: environ, Args: args, Stdout: &out, Stderr: &out},
		func(ctx context.Context, o agent.Options) (err error) {
			started, err = agent.Prepare(ctx, o)
			return err
		})
	cmd.SetArgs(args)
	return started, cmd.ExecuteContext(ctx)
}

func withoutProxyConfig(t testing.TB, bootstrap []byte) string {
	t.Helper()
	var tree map[string]any
	if err := json.Unmarshal(bootstrap, &tree); err != nil {
		return string(bootstrap) // a user's own file
	}
	if node, ok := tree["node"].(map[string]any); ok {
		if metadata, ok := node["metadata"].(map[string]any); ok {
			delete(metadata, "PROXY_CONFIG")
		}
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func writeFile(t testing.TB, name string, body []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, body, 0o600); err != nil {
		t.Fatal(err)
	}
}
