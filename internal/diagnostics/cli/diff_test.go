package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
)

const diffServices = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews, namespace: shop}
spec:
  hosts: [reviews.shop]
  addresses: [240.1.1.1]
  resolution: STATIC
  ports: [{number: 9080, name: http, protocol: HTTP}]
  endpoints: [{address: 10.1.1.1}]
`

const diffRoute = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: shop}
spec: {hosts: [reviews.shop], http: [{timeout: 3s, route: [{destination: {host: reviews.shop}}]}]}
`

// runDiff runs pilotctl diff and returns its output, error and exit code.
func runDiff(t *testing.T, stdin string, args ...string) (text, failure string, code int) {
	t.Helper()
	c := New()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetIn(strings.NewReader(stdin))
	c.SetArgs(append([]string{"diff"}, args...))
	err := c.ExecuteContext(t.Context())
	if err != nil {
		failure = err.Error()
	}
	return out.String(), failure, ExitCode(err)
}

// TestDiffOfFiles shows the ways to name a change, the formats and the exit codes.
func TestDiffOfFiles(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for path, text := range map[string]string{
		from + "/services.yaml": diffServices, to + "/services.yaml": diffServices, to + "/sub/route.yaml": diffRoute,
		to + "/.hidden.yaml": "}", to + "/README.md": "text", dir + "/route.yaml": diffRoute, dir + "/mesh": "outboundTrafficPolicy: {mode: NONSENSE}",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const timeout = "route.timeout: 0s -> 3s"
	for _, c := range []struct {
		args  string
		stdin string
		code  int
		want  string
	}{
		{args: "--from FROM --to FROM", want: "0 of 1 proxies change"},
		{args: "--from FROM --to TO", code: 1, want: timeout},
		{args: "--from FROM -f DIR/route.yaml", code: 1, want: timeout},
		{args: "--from FROM -f -", stdin: diffRoute, code: 1, want: timeout},
		{args: "--from TO --delete vs/reviews -n shop", code: 1, want: "route.timeout: 3s -> 0s"},
		{args: "--from TO --delete vs/reviews", code: 2, want: "has no VirtualService/default/reviews"},
		{args: "--from TO --delete nonsense/reviews", code: 2, want: "is not one that the control plane reads"},
		{args: "--from FROM --to TO --proxy client.shop", code: 1, want: "1 of 1 proxies change"},
		{args: "--from FROM --to TO --proxy absent", code: 2, want: "no proxy has the name"},
		{args: "--from FROM --to TO --proxy-namespace absent", code: 2, want: "no proxy has the name"},
		{args: "--from FROM --to TO -o markdown", code: 1, want: "### Mesh configuration: 1 of 1 proxies change"},
		{args: "--from FROM --to TO -o yaml", code: 1, want: "operation: changed"},
		{args: "--from FROM --to TO -o table", code: 2, want: "want text, markdown, json or yaml"},
		{args: "--from FROM --to TO -f DIR/route.yaml", code: 2, want: "leave out --filename"},
		{args: "--from FROM", code: 2, want: "name the change"},
		{args: "", code: 2, want: "name the change"},
		{args: "--to TO -f DIR/route.yaml", code: 2, want: "with --from only"},
		{args: "-f DIR/route.yaml --server 127.0.0.1:1", code: 2, want: "ask the control plane"},
		{args: "--from DIR/absent --to TO", code: 2, want: "--from: stat"},
		{args: "--from FROM --to TO --meshConfig DIR/mesh", code: 2, want: "mesh config"},
		{args: "--nonsense", code: 2, want: "unknown flag"},
	} {
		args := strings.Fields(strings.NewReplacer("FROM", from, "TO", to, "DIR", dir).Replace(c.args))
		text, failure, code := runDiff(t, c.stdin, args...)
		if code != c.code || !strings.Contains(text+failure, c.want) {
			t.Errorf("%s: exit code %d, want %d, and %q in\n%s%s", c.args, code, c.code, c.want, text, failure)
		}
	}
	text, _, _ := runDiff(t, "", "--from", from, "--to", to, "-o", "json")
	var r diff.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Changed != 1 || r.Groups[0].Changes[0].Type != "RDS" {
		t.Errorf("the report is %s (%v)", text, err)
	}
}
