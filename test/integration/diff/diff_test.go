package diff

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// patience bounds every wait for the control plane.
const patience = time.Minute

// fixture is a process of pilot-discovery that reads a folder.
type fixture struct {
	t          *testing.T
	dir        string
	http, grpc string
}

// newFixture starts pilot-discovery with the manifests.
func newFixture(t *testing.T, manifests []byte) *fixture {
	t.Helper()
	binary, err := program.Build(t.Context(), "cmd/pilot-discovery")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, dir: t.TempDir(), http: serving.FreeAddress(t), grpc: serving.FreeAddress(t)}
	f.write("mesh.yaml", manifests)
	ctx, cancel := context.WithCancel(context.Background())
	var log serving.Log
	cmd := exec.CommandContext(ctx, binary, "discovery", "--registries=", "--configDir", f.dir,
		"--httpAddr", f.http, "--grpcAddr", f.grpc, "--secureGRPCAddr=", "--httpsAddr=", "--monitoringAddr=", "--ctrlz_port=0",
		"--meshConfig=", "--networksConfig=")
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &log, &log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was interrupted
		if t.Failed() {
			t.Logf("the log of the control plane:\n%s", log.String())
		}
	})
	serving.Eventually(t, patience, "ready", func() error {
		_, err := serving.Page("http://" + f.http + "/ready")
		return err
	})
	return f
}

// write replaces a file of the folder in one step.
func (f *fixture) write(name string, text []byte) {
	f.t.Helper()
	next := filepath.Join(f.t.TempDir(), name)
	if err := os.WriteFile(next, text, 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// connect connects a sidecar that has all of its resources.
func (f *fixture) connect(name, namespace, ip string) *sidecar.Proxy {
	f.t.Helper()
	p := sidecar.Connect(f.t, f.grpc, sidecar.Node(name, namespace, ip, nil))
	serving.Eventually(f.t, patience, name+" has its routes", func() error {
		if p.VersionOf(api.RouteType, "9080") == "" {
			return fmt.Errorf("it has %v", p.ResourceNames(api.RouteType))
		}
		return nil
	})
	return p
}

// pilotctl runs a command and returns its output, its error as text, and its exit code.
func (f *fixture) pilotctl(stdin string, args ...string) (text string, code int) {
	f.t.Helper()
	c := cli.New()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetIn(strings.NewReader(stdin))
	c.SetArgs(append(args, "--server", f.http))
	err := c.ExecuteContext(f.t.Context())
	if err != nil {
		fmt.Fprintf(&out, "pilotctl: %v\n", err)
	}
	return out.String(), cli.ExitCode(err)
}

// TestDiff shows the output of pilotctl diff for each case, then makes the change and compares the
// resources that the proxies are really sent with the report.
func TestDiff(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		f := newFixture(t, c.Input("mesh.yaml"))
		fleet := map[string]*sidecar.Proxy{
			"web.shop":     f.connect("web", "shop", "10.1.0.3"),
			"reviews.shop": f.connect("reviews", "shop", "10.1.0.1"),
			"other.other":  f.connect("other", "other", "10.1.0.9"),
		}
		for _, p := range fleet {
			p.SentResources()
		}
		change := string(c.Input("change.yaml"))
		text, code := f.pilotctl(change, "diff", "-f", "-")
		c.Compare(t, "output", fmt.Appendf(nil, "%sexit code %d\n", text, code))
		for name, p := range fleet {
			if sent := p.SentResources(); len(sent) > 0 {
				t.Errorf("asking sent %v to %s", sent, name)
			}
		}
		if again, _ := f.pilotctl(change, "diff", "-f", "-"); again != text {
			t.Errorf("the second report differs:\n%s", again)
		}

		f.write("mesh.yaml", slices.Concat(c.Input("mesh.yaml"), []byte("---\n"), c.Input("change.yaml")))
		var want []string
		for line := range strings.Lines(text) {
			if words := strings.Fields(line); strings.HasPrefix(line, "  ") && len(words) > 2 && isChange(words) {
				want = append(want, line)
			}
		}
		if len(want) > 0 {
			serving.Eventually(t, patience, "the change is sent", func() error {
				if text, code := f.pilotctl(change, "diff", "-f", "-"); code != 0 {
					return fmt.Errorf("it still differs:\n%s", text)
				}
				return nil
			})
			f.checkSent(fleet, text)
		}
	})
}

// isChange reports whether a line of a report is the title of a changed resource.
func isChange(words []string) bool {
	return slices.Contains([]string{"CDS", "EDS", "LDS", "RDS"}, strings.TrimSuffix(words[0], ","))
}

// checkSent fails the test unless each proxy that the report names is sent a response within
// patience, and no other proxy is.
func (f *fixture) checkSent(fleet map[string]*sidecar.Proxy, report string) {
	f.t.Helper()
	for name, p := range fleet {
		if !strings.Contains(report, name) {
			continue
		}
		serving.Eventually(f.t, patience, name+" is sent the change", func() error {
			if len(p.SentResources()) == 0 {
				return fmt.Errorf("nothing was sent to %s", name)
			}
			return nil
		})
	}
	for name, p := range fleet {
		if sent := p.SentResources(); !strings.Contains(report, name) && len(sent) > 0 {
			f.t.Errorf("%s is sent %v, which the report does not have", name, sent)
		}
	}
}
