package command

import (
	"bytes"
	"context"
	"crypto/x509"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/agent"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	envoykit "github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/pki"
)

// TestBootstrap shows the bootstrap and arguments of Envoy. A case has the inputs of a container:
// its environment in "env", arguments in "args" (default: proxy sidecar), and files under their
// names. The outputs are "argv", Envoy's arguments, and the bootstrap that they refer to.
//
// bootstrap/sidecar.txtar shows a complete bootstrap. The cases in changes add their inputs to it
// and show only the difference: null means removed, lists are keyed by the names of their members.
//
// A real Envoy validates each bootstrap with the same arguments.
func TestBootstrap(t *testing.T) {
	testdata, err := filepath.Abs("testdata") // cases change the working directory
	if err != nil {
		t.Fatal(err)
	}
	var base bootstrapCase
	golden.Run(t, filepath.Join(testdata, "bootstrap", "sidecar.txtar"), func(t *testing.T, c *golden.Case) {
		base = newBootstrapCase(c, bootstrapCase{})
		base.tree = base.check(t, c)
		c.Compare(t, "bootstrap", asYAML(t, base.tree))
	})
	golden.Run(t, filepath.Join(testdata, "changes", "*.txtar"), func(t *testing.T, c *golden.Case) {
		tree := newBootstrapCase(c, base).check(t, c)
		c.Compare(t, "changes", asYAML(t, changes(base.tree, tree)))
	})
}

// bootstrapCase holds a case's inputs and its bootstrap.
type bootstrapCase struct {
	env, args []string
	files     map[string][]byte
	tree      any // the generated bootstrap
}

func newBootstrapCase(c *golden.Case, base bootstrapCase) bootstrapCase {
	b := bootstrapCase{args: []string{"proxy", "sidecar"}, files: maps.Clone(base.files)}
	if b.files == nil {
		b.files = map[string][]byte{}
	}
	b.env = slices.Concat(base.env, slices.Collect(strings.SplitSeq(strings.TrimSpace(string(c.Input("env"))), "\n")))
	if c.Has("args") {
		b.args = strings.Fields(string(c.Input("args")))
	}
	for _, name := range c.Sections() {
		if strings.Contains(name, "/") {
			b.files[name] = c.Input(name)
		}
	}
	return b
}

// check returns the bootstrap after Envoy has validated it.
func (b bootstrapCase) check(t *testing.T, c *golden.Case) any {
	t.Chdir(t.TempDir())
	for name, body := range b.files {
		write(t, name, body)
	}
	writeCertificates(t, "etc/certs")
	command, err := prepare(t.Context(), b.env, b.args)
	if err != nil {
		t.Fatal(err)
	}
	if c.Has("argv") { // without the program, which is the first argument
		c.Compare(t, "argv", []byte(strings.Join(append([]string{command.Path}, command.Args...), "\n")))
	}
	text, err := os.ReadFile(command.Args[slices.Index(command.Args, "-c")+1])
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	// Not Require: without an Envoy the comparison is still useful.
	switch binary, err := envoykit.FindBinary(); {
	case err == nil:
		validate(t, binary, command.Args)
	case os.Getenv("CI") == "true":
		t.Fatal(err)
	default:
		t.Log("not loaded:", err)
	}
	return tree
}

// writeCertificates writes the files that cases with TLS refer to: cert.pem, key.pem, roots.pem and
// crl.pem.
func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	own := pki.SelfSigned(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature})
	for name, text := range map[string][]byte{
		"cert.pem": own.CertificatePEM(), "roots.pem": own.CertificatePEM(), "crl.pem": own.Revoke(), "key.pem": own.KeyPEM(),
	} {
		write(t, dir+"/"+name, text)
	}
}

// prepare runs "pilot-agent ARGS" until before it starts Envoy.
func prepare(ctx context.Context, environ, args []string) (envoy.Command, error) {
	var command envoy.Command
	var out bytes.Buffer
	root := NewWithRunner(Options{Environ: environ, Args: args, Stdout: &out, Stderr: &out}, func(ctx context.Context, o agent.Options) (err error) {
		command, err = agent.Prepare(ctx, o)
		return err
	})
	root.SetArgs(args)
	return command, root.ExecuteContext(ctx)
}

// validate has Envoy load the file, with the warnings that the arguments normally suppress. Two are
// expected: tracing in the bootstrap is deprecated but needed by listeners without their own
// provider; STRICT_DNS is deprecated, but tools that show clusters do not recognize its successor.
func validate(t *testing.T, binary string, args []string) {
	t.Helper()
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--skip-deprecated-logs" })
	if i := slices.Index(args, "misc:error"); i > 0 {
		args[i] = "misc:warning"
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, binary, append(args, "--mode", "validate")...).CombinedOutput()
	if err != nil {
		t.Errorf("envoy refuses the bootstrap: %v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		known := strings.Contains(line, "Bootstrap.tracing'") || strings.Contains(line, "Cluster.respect_dns_ttl'")
		if strings.Contains(line, "warning") && !known {
			t.Error(line)
		}
	}
}

func write(t *testing.T, name string, body []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, body, 0o600); err != nil {
		t.Fatal(err)
	}
}

func asYAML(t *testing.T, tree any) []byte {
	t.Helper()
	text, err := yaml.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// changes returns the parts of "to" that differ from "from".
func changes(from, to any) any {
	a, b := byName(from), byName(to)
	if a == nil || b == nil {
		return to
	}
	out := map[string]any{}
	for key, value := range b {
		old, ok := a[key]
		switch {
		case !ok:
			out[key] = value
		case !same(old, value):
			out[key] = changes(old, value)
		}
	}
	for key := range a {
		if _, ok := b[key]; !ok {
			out[key] = nil
		}
	}
	return out
}

func same(a, b any) bool {
	x, errX := yaml.Marshal(a)
	y, errY := yaml.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// byName returns the members of an object, or of a list whose elements have names, by name. It
// returns nil for anything else.
func byName(tree any) map[string]any {
	switch tree := tree.(type) {
	case map[string]any:
		return tree
	case []any:
		members := map[string]any{}
		for _, m := range tree {
			object, _ := m.(map[string]any)
			name, ok := object["name"].(string)
			if _, twice := members[name]; !ok || twice {
				return nil
			}
			members[name] = m
		}
		return members
	default:
		return nil
	}
}
