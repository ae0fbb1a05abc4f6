package vm

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestDoctor runs pilotctl workload doctor on a machine without an agent, whose token other users can
// read and which cannot resolve the control plane's name, and again after it has joined.
// docs/PILOTCTL.md has the outputs.
func TestDoctor(t *testing.T) {
	longtest.Test(t)
	netns.Require(t)
	t.Parallel()
	netns.RequireUID(t, proxyUID)
	golden.Run(t, "testdata/reference.txtar", func(t *testing.T, c *golden.Case) {
		network := newNetwork(t)
		p := filePlane(t, network)
		machines := groupOf("vms", "vm", withEnvoy(t))
		p.apply("mesh", services+machines)
		p.start()

		m := newMachine(t, network, "machine", "10.66.2.1")
		hosts := m.install(p, machines, "--autoregister")
		token := filepath.Join(m.dir, "var/run/secrets/tokens/istio-token")
		if err := os.Chmod(token, 0o644); err != nil {
			t.Fatal(err)
		}
		before := m.doctor()

		if err := os.Chmod(token, 0o600); err != nil {
			t.Fatal(err)
		}
		m.setHosts(hosts)
		m.capture()
		m.start()
		c.Compare(t, "session", []byte(before+"\n"+m.doctor()))
	})
}

// doctor runs pilotctl workload doctor on the machine, which has a user istio-proxy meanwhile, and
// returns the command and its output.
func (m *machine) doctor() string {
	m.t.Helper()
	dir := m.t.TempDir()
	users, output := filepath.Join(dir, "passwd"), filepath.Join(dir, "output")
	if err := os.WriteFile(users, []byte("root:x:0:0::/:\nistio-proxy:x:1337:1337::/:\n"), 0o644); err != nil { //nolint:gosec // as on any system
		m.t.Fatal(err)
	}
	file, err := os.Create(output)
	if err != nil {
		m.t.Fatal(err)
	}
	defer file.Close()
	process, err := m.node.Start(netns.Command{
		Name: "doctor", Path: "unshare", Args: []string{
			"--mount", "sh", "-c", `mount --bind "$0" /etc/passwd && exec "$@"`,
			users, executable(m.t, "pilotctl"), "workload", "doctor", "--root", m.dir,
		},
		Stdout: file, Stderr: file,
	})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	_ = process.Wait(ctx) // it fails if a check fails
	text, err := os.ReadFile(output)
	if err != nil {
		m.t.Fatal(err)
	}
	out := strings.ReplaceAll(string(text), m.dir, "")
	out = regexp.MustCompile(`lookup (\S+?)( on \S+)?: .*`).ReplaceAllString(out, "lookup $1: no such host") // depends on the resolver
	return "$ pilotctl workload doctor\n" + out
}
