package pilotctl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/golden"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// TestSessions runs the commands of each file of testdata on a control plane that reads its objects, with
// its proxies connected: a line has the name, the namespace, the address and the labels of one.
func TestSessions(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		o := controlplane.Options(t)
		o.ConfigDir = t.TempDir()
		if err := os.WriteFile(filepath.Join(o.ConfigDir, "mesh.yaml"), c.Input("mesh.yaml"), 0o600); err != nil {
			t.Fatal(err)
		}
		p := controlplane.Start(t, o)
		for line := range strings.Lines(string(c.Input("proxies"))) {
			connectLine(t, p, strings.Fields(line))
		}
		var session bytes.Buffer
		for line := range strings.Lines(string(c.Input("commands"))) {
			line = strings.TrimSpace(line)
			fmt.Fprintf(&session, "$ pilotctl %s\n", line)
			command := cli.New()
			command.SetOut(&session)
			command.SetErr(&session)
			command.SetArgs(append(strings.Fields(line), "--server", p.HTTP))
			if err := command.ExecuteContext(t.Context()); err != nil {
				fmt.Fprintf(&session, "pilotctl: %s (exit code %d)\n", strings.ReplaceAll(err.Error(), p.HTTP, "SERVER"), cli.ExitCode(err))
			}
			session.WriteString("\n")
		}
		c.Compare(t, "session", session.Bytes())
	})
}

// connectLine connects the proxy of a line, and waits until it has its listeners, and the filters that
// these have by ECDS.
func connectLine(t *testing.T, p *controlplane.Plane, fields []string) {
	t.Helper()
	name, namespace, ip := fields[0], fields[1], fields[2]
	labels := map[string]any{}
	for _, l := range fields[3:] {
		k, v, _ := strings.Cut(l, "=")
		labels[k] = v
	}
	metadata := map[string]any{"LABELS": labels, "NAMESPACE": namespace, "SERVICE_ACCOUNT": name, "ISTIO_VERSION": "1.31.0"}
	node := sidecar.Node(name, namespace, ip, metadata)
	if _, router := labels["istio"]; router {
		node.Id = strings.Replace(node.GetId(), "sidecar~", "router~", 1)
	}
	x := sidecar.Connect(t, p.GRPC, node)
	p.Eventually(name+" has its listeners", func() error {
		if len(x.ResourceNames(api.ListenerType)) == 0 {
			return fmt.Errorf("it has the clusters %v", x.ResourceNames(api.ClusterType))
		}
		return nil
	})
	requestFilters(p, x, name)
}

// requestFilters subscribes a proxy to the filters that its listeners have by ECDS, and waits until it has
// them.
func requestFilters(p *controlplane.Plane, x *sidecar.Proxy, name string) {
	filters := extensionNames(x)
	if len(filters) == 0 {
		return
	}
	x.Subscribe(api.ExtensionType, filters...)
	p.Eventually(name+" has its filters", func() error {
		if have := x.ResourceNames(api.ExtensionType); len(have) < len(filters) {
			return fmt.Errorf("it has %v of %v", have, filters)
		}
		return nil
	})
}

// extensionNames returns the names of the filters that a proxy's listeners have by ECDS.
func extensionNames(x *sidecar.Proxy) (names []string) {
	for _, name := range x.ResourceNames(api.ListenerType) {
		l := new(listenerv3.Listener)
		x.Read(api.ListenerType, name, l)
		for _, chain := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
			for _, f := range chain.GetFilters() {
				if f.GetConfigDiscovery() != nil {
					names = append(names, f.GetName())
				}
				m := new(hcmv3.HttpConnectionManager)
				if !f.GetTypedConfig().MessageIs(m) || f.GetTypedConfig().UnmarshalTo(m) != nil {
					continue
				}
				for _, h := range m.GetHttpFilters() {
					if h.GetConfigDiscovery() != nil {
						names = append(names, h.GetName())
					}
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
