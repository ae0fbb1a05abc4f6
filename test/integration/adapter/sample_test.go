package adapter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/adaptertest"
	"github.com/meshpilot/meshpilot/internal/diagnostics/check"
	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/test/support/gatewayenv"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/process"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// sample is the adapter of a JSON file, as a process.
type sample struct {
	*process.Process
	address string

	t      testing.TB
	binary string
	dir    string // of its file and its state
}

func newSample(t testing.TB) *sample {
	t.Helper()
	bin := t.TempDir()
	if err := program.Into(t.Context(), bin, "samples/adapter"); err != nil {
		t.Fatal(err)
	}
	return &sample{
		Process: process.New(t, "the adapter"), address: serving.FreeAddress(t),
		t: t, binary: filepath.Join(bin, "adapter"), dir: t.TempDir(),
	}
}

// launch starts the process if it does not run.
func (s *sample) launch() {
	s.t.Helper()
	s.Start(exec.Command(s.binary, "--file", s.file(), "--state", s.stateFile(), "--address", s.address))
}

func (s *sample) file() string { return filepath.Join(s.dir, "services.json") }

func (s *sample) stateFile() string { return filepath.Join(s.dir, "state.json") }

// write replaces the file.
func (s *sample) write(content []byte) {
	s.t.Helper()
	next := s.file() + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(next, s.file()); err != nil {
		s.t.Fatal(err)
	}
}

// list replaces the file by one with the service orders, which has these ports of 127.0.0.1.
func (s *sample) list(ports ...int) {
	s.t.Helper()
	service := adapter.Service{
		ServiceKey: adapter.ServiceKey{Name: "orders"}, Hosts: []string{"orders.example"},
		Ports: []adapter.Port{{Name: "http", Number: 80, Protocol: "HTTP"}}, Instances: []adapter.Instance{},
	}
	for _, p := range ports {
		service.Instances = append(service.Instances, adapter.Instance{
			ID: fmt.Sprint(p), Address: "127.0.0.1", Ports: map[string]uint32{"http": uint32(p)},
		})
	}
	content, err := json.Marshal([]adapter.Service{service})
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(content)
}

// awaitState waits until the adapter has saved a state with these ports of 127.0.0.1, which it does up to a second
// after a change.
func (s *sample) awaitState(ports ...int) {
	s.t.Helper()
	serving.Eventually(s.t, time.Minute, "the state is saved", func() error {
		text, err := os.ReadFile(s.stateFile())
		for _, p := range ports {
			if !strings.Contains(string(text), fmt.Sprintf("%q", fmt.Sprint(p))) {
				return fmt.Errorf("port %d is not in %q: %w", p, text, err)
			}
		}
		return nil
	})
}

// TestSampleKeepsTheRules runs the rules of pilotctl adapter test with the process, and then the command
// itself. docs/PILOTCTL.md has its output.
func TestSampleKeepsTheRules(t *testing.T) {
	s := newSample(t)
	s.list(8080, 8081)
	s.launch()
	s.requireRules()
	golden.Run(t, "testdata/reference.txtar", func(t *testing.T, c *golden.Case) {
		args := strings.Fields(string(c.Input("command")))
		var out bytes.Buffer
		command := cli.New()
		command.SetOut(&out)
		command.SetArgs(append(args[:len(args)-1:len(args)-1], s.address, "--quiet", "100ms", "--timeout", "20s"))
		if err := command.ExecuteContext(t.Context()); err != nil {
			t.Error(err)
		}
		text := strings.ReplaceAll(out.String(), s.address, args[len(args)-1])
		c.Compare(t, "session", []byte("$ pilotctl "+strings.Join(args, " ")+"\n"+text))
	})
}

// requireRules runs the rules of pilotctl adapter test with the process, again until it serves, and
// fails the test unless all of them pass.
func (s *sample) requireRules() {
	s.t.Helper()
	serving.Eventually(s.t, time.Minute, "the adapter keeps the rules", func() error {
		target := adaptertest.Target{Address: s.address, Timeout: 20 * time.Second, Quiet: 100 * time.Millisecond}
		results := target.Run(s.t.Context())
		if n := check.Count(results, check.Pass); n != len(results) {
			return fmt.Errorf("the results are %+v", results)
		}
		return nil
	})
}

// TestNoRequestIsLost sends requests through a real Envoy to the instances of a service, while they change,
// the adapter is killed, and it starts again while its platform cannot be read.
func TestNoRequestIsLost(t *testing.T) {
	longtest.Test(t)
	s := newSample(t)
	a, b := gatewayenv.StartBackend(t, "a"), gatewayenv.StartBackend(t, "b")
	s.list(a, b)
	s.launch()
	dir, port := t.TempDir(), serving.FreePort(t)
	rules, mesh := filepath.Join(dir, "rules"), filepath.Join(dir, "mesh.yaml")
	if err := os.Mkdir(rules, 0o755); err != nil {
		t.Fatal(err)
	}
	sources := fmt.Sprintf("configSources: [{address: 'xds://%s?mode=delta'}, {address: 'fs://%s'}]\n", s.address, rules)
	for file, text := range map[string]string{
		mesh: sources, filepath.Join(rules, "edge.yaml"): gatewayenv.EdgeYAML(port, "orders.example"),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e := gatewayenv.Start(t, gatewayenv.Options{Flags: []string{"--meshConfig", mesh}})
	address := fmt.Sprintf("http://127.0.0.1:%d/", port)
	await := func(ids ...string) { t.Helper(); gatewayenv.AwaitAnswers(t, address, ids...) }
	await("a", "b")
	requireNoFailure := gatewayenv.StartLoad(t, address)

	s.list(a)
	await("a")
	s.list(a, b)
	await("a", "b")

	s.awaitState(a, b)
	s.Kill()
	await("a", "b")
	s.write([]byte("{")) // the platform cannot be read
	s.launch()
	e.Restart() // afterwards all state of the control plane comes from the adapter
	await("a", "b")
	s.list(b)
	await("b")
	requireNoFailure()
}
