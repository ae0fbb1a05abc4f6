package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/envoy"
	"github.com/meshpilot/meshpilot/test/support/fixture"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

const cases = "testdata/*.txtar"

// TestGolden runs every case. Inputs are the user's objects in config.yaml and mesh.yaml and the
// proxy in proxy.yaml. "client" and "server" are the telemetry settings of each side, "problems"
// the Problems of the objects, and "mesh problems" those of the MeshConfig, which do not depend on
// proxies.
func TestGolden(t *testing.T) {
	golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
		v := caseView(t, c)
		table := NewTable()
		made := table.For(v)
		for section, s := range map[string]*Side{"client": &made.Client, "server": &made.Server} {
			if c.Has(section) {
				c.Compare(t, section, sideText(t, s))
			}
		}
		c.Compare(t, "problems", []byte(problemText(table.Problems(v))))
		if c.Has("clusters") {
			c.Compare(t, "clusters", []byte(strings.Join(append(made.Clusters, ""), "\n")))
		}
		if c.Has("mesh problems") {
			var b strings.Builder
			for _, p := range UnhonouredMesh(v.Settings.Mesh) {
				fmt.Fprintf(&b, "%s: %s: %s\n", p.Severity, p.Field, p.Reason)
			}
			c.Compare(t, "mesh problems", []byte(b.String()))
		}
	})
}

func caseView(t testing.TB, c *golden.Case) *view.View {
	t.Helper()
	return fixture.OfCase(t, c).View(fixture.Proxy(t, c.Input("proxy.yaml")))
}

// sideText prints a side: the logs of connection managers, and of TCP proxies if they differ, and
// logs of listeners that are not logs of TCP proxies.
func sideText(t testing.TB, s *Side) []byte {
	t.Helper()
	var b strings.Builder
	logs := func(title string, list []*accesslogv3.AccessLog) {
		for _, l := range list {
			fmt.Fprintf(&b, "# %s log\n%s", title, golden.YAML(t, l))
		}
	}
	logs("HTTP", s.HTTPLogs)
	if !same(s.HTTPLogs, s.TCPLogs) {
		logs("TCP", s.TCPLogs)
	} else if len(s.TCPLogs) > 0 {
		b.WriteString("# the same of TCP\n")
	}
	for _, l := range s.ListenerLogs {
		if !slices.ContainsFunc(s.TCPLogs, func(t *accesslogv3.AccessLog) bool {
			return proto.Equal(t.GetTypedConfig(), l.GetTypedConfig())
		}) {
			logs("listener", []*accesslogv3.AccessLog{l})
		}
	}
	if s.LogConnected {
		b.WriteString("# connections are logged when they are made, too\n")
	}
	if s.Tracing != nil {
		fmt.Fprintf(&b, "# spans\n%s", golden.YAML(t, s.Tracing))
	}
	if !s.SamplesByRequestID {
		b.WriteString("# sampled whatever the request's id says\n")
	}
	if b.Len() == 0 {
		return []byte("# nothing is told\n")
	}
	return []byte(b.String())
}

func same(a, b []*accesslogv3.AccessLog) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !proto.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

func problemText(list []config.Problem) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(string(p.Severity) + ": " + p.String() + "\n")
	}
	return b.String()
}

// TestEnvoyAcceptsAllCases loads both sides of every case into Envoy, all at once.
func TestEnvoyAcceptsAllCases(t *testing.T) {
	var all []*listenerv3.Listener
	clusters := map[string]bool{}
	t.Run("cases", func(t *testing.T) {
		golden.Run(t, cases, func(t *testing.T, c *golden.Case) {
			for _, s := range c.Sections() {
				c.Input(s)
			}
			made := NewTable().For(caseView(t, c))
			for _, s := range []*Side{&made.Client, &made.Server} {
				all = append(all, listenerOf(len(all), s))
			}
			for _, n := range made.Clusters {
				clusters[n] = true
			}
		})
	})
	if len(all) < 40 {
		t.Errorf("only %d listeners: the test is not effective", len(all))
	}
	envoy.Validate(t, envoy.Config{Listeners: all, Clusters: clustersOf(clusters)})
}
