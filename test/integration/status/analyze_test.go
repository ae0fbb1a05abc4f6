package status

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/model/api"
)

// pilotctl runs a command and checks its exit code and that its output contains a text.
func (l *lab) pilotctl(code int, want string, args ...string) {
	l.Helper()
	c := cli.New()
	var out, warnings bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&warnings)
	c.SetArgs(args)
	err := c.ExecuteContext(l.Context())
	if cli.ExitCode(err) != code || !strings.Contains(out.String(), want) || warnings.Len() > 0 {
		l.Errorf("pilotctl %v: %v (exit code %d), want %d and %q:\n%s%s", args, err, cli.ExitCode(err), code, want, &out, &warnings)
	}
}

// TestAnalyzeCluster runs pilotctl analyze for the objects of an API server, and for files on top of
// them.
func TestAnalyzeCluster(t *testing.T) {
	l := newLab(t)
	l.apply(service)
	l.apply(virtualService("", "1s"))
	cluster := []string{"analyze", "--cluster", "--kubeconfig", l.cluster.Kubeconfig(), "--namespace", l.shop}
	l.pilotctl(0, "", cluster...)

	// The subset is in no object of the cluster, and then in one of a file.
	l.apply(virtualService(", subset: v9", "1s"))
	l.pilotctl(79, "[IST0101] (VirtualService reviews."+l.shop, cluster...)
	file := filepath.Join(t.TempDir(), "rule.yaml")
	rule := `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: ` + l.shop + `}
spec: {host: reviews, subsets: [{name: v9}]}
`
	if err := os.WriteFile(file, []byte(rule), 0o600); err != nil {
		t.Fatal(err)
	}
	l.pilotctl(0, "", append(cluster, file)...)
}

// TestDiffOfCluster compares what a control plane has from an API server with a change.
func TestDiffOfCluster(t *testing.T) {
	l := newLab(t)
	l.apply(service)
	a := l.replica("pilot-a", nil)
	proxy := a.connect("one", "10.1.0.1", nil)
	l.eventually("the proxy is served", func() error {
		return served([]string{api.ClusterType, api.ListenerType, api.RouteType}, proxy)
	})
	file := filepath.Join(t.TempDir(), "route.yaml")
	diff := []string{"diff", "--server", a.HTTP, "-f", file}
	route := strings.Replace(virtualService("", "7s"), "{name: reviews}", "{name: reviews, namespace: "+l.shop+"}", 1)
	if err := os.WriteFile(file, []byte(route), 0o600); err != nil {
		t.Fatal(err)
	}
	l.pilotctl(1, "1 of 1 proxies", diff...)
	l.apply(route)
	l.eventually("nothing differs any more", func() error {
		c := cli.New()
		var out bytes.Buffer
		c.SetOut(&out)
		c.SetArgs(diff)
		if err := c.ExecuteContext(t.Context()); err != nil {
			return fmt.Errorf("%w:\n%s", err, &out)
		}
		return nil
	})
}
