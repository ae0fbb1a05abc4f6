package agent

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/agent/proxyconfig"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// options returns the options of a sidecar with a ProxyConfig and variables. Goldens of the
// bootstrap are in package command; the agent's life is tested with the program, in
// cmd/pilot-agent.
func options(t *testing.T, config string, vars ...string) Options {
	t.Helper()
	c, err := proxyconfig.MergeLayers(
		proxyconfig.Layer{Name: "base", YAML: "{controlPlaneAuthPolicy: NONE, discoveryAddress: 'x:15010', configPath: " + t.TempDir() + "}"},
		proxyconfig.Layer{Name: "test", YAML: config})
	if err != nil {
		t.Fatal(err)
	}
	env, err := environment.Parse(environment.ParseList(append([]string{"POD_NAME=a", "POD_NAMESPACE=ns", "INSTANCE_IPS=10.0.0.1"}, vars...)))
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Build(node.Input{Type: mesh.SidecarProxy, Environment: env, Config: c, HasIdentity: true})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Node: n, Config: c, Environment: env, Levels: envoy.Levels{Default: "info"}, Log: slog.New(slog.DiscardHandler)}
}

func TestStatsdIsLookedUp(t *testing.T) {
	tests := []struct{ address, ips, want string }{
		{"", "10.0.0.1", ""},
		{"192.0.2.1:9125", "10.0.0.1", "192.0.2.1:9125"},
		{"localhost:9125", "10.0.0.1", "127.0.0.1:9125"}, // not ::ffff:127.0.0.1 or ::1
		{"[fd00::2]:9125", "fd00::1", "[fd00::2]:9125"},
		{"192.0.2.1:9125", "fd00::1,10.0.0.1", "192.0.2.1:9125"},
		{"$(HOST_IP):9125", "10.0.0.1", "192.0.2.7:9125"},
	}
	for _, test := range tests {
		var want netip.AddrPort
		if test.want != "" {
			want = netip.MustParseAddrPort(test.want)
		}
		got, err := resolveStatsd(t.Context(), options(t, "statsdUdpAddress: '"+test.address+"'", "INSTANCE_IPS="+test.ips, "HOST_IP=192.0.2.7"))
		if err != nil || got != want {
			t.Errorf("%q on a host with %s: %v, %v; want %v", test.address, test.ips, got, err, want)
		}
	}
	_, err := Prepare(t.Context(), options(t, "statsdUdpAddress: '192.0.2.1:9125'", "INSTANCE_IPS=fd00::1"))
	if err == nil || !strings.Contains(err.Error(), `proxy configuration field "statsdUdpAddress": 192.0.2.1 has no address of an IP version of this host`) {
		t.Errorf("an address of another IP version: %v", err)
	}
	if _, err = Prepare(t.Context(), options(t, "statsdUdpAddress: '$(HOST_IP):9125'")); err == nil || !strings.Contains(err.Error(), "HOST_IP is not set") {
		t.Errorf("no HOST_IP: %v", err)
	}
}

// TestOwnBootstrapIsNotChanged tests that the user's bootstrap is used in place and nothing is
// written.
func TestOwnBootstrapIsNotChanged(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.json")
	if err := os.WriteFile(own, []byte("{}"), 0o400); err != nil {
		t.Fatal(err)
	}
	o := options(t, "customConfigFile: "+own)
	c, err := Prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.Index(c.Args, "-c"); c.Args[i+1] != own {
		t.Errorf("arguments %q", c.Args)
	}
	if text, err := os.ReadFile(own); err != nil || string(text) != "{}" {
		t.Errorf("the file is %q, %v", text, err)
	}
	if left, err := os.ReadDir(o.Config.GetConfigPath()); err != nil || len(left) > 0 {
		t.Errorf("written: %v, %v", left, err)
	}
}

func TestPrepareNamesUnwritableDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Prepare(t.Context(), options(t, "configPath: "+file)); err == nil || !strings.Contains(err.Error(), "write bootstrap: mkdir "+file) {
		t.Errorf("error %v", err)
	}
}
