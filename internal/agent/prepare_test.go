package agent

import (
	"bytes"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

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
}

// TestInvalidStatisticsAreWarnings tests that the agent starts with invalid settings of statistics,
// logs them, and writes the bootstrap that it writes without them.
func TestInvalidStatisticsAreWarnings(t *testing.T) {
	const field = `proxy configuration field "statsdUdpAddress": `
	tests := []struct {
		config, variables string
		annotations       map[string]string
		warning           string
	}{
		{config: "statsdUdpAddress: '192.0.2.1:9125'", variables: "INSTANCE_IPS=fd00::1", warning: field + "192.0.2.1 has no address of an IP version of this host"},
		{config: "statsdUdpAddress: '$(HOST_IP):9125'", warning: "HOST_IP is not set"},
		{config: "statsdUdpAddress: 'x:y'", warning: field + `"y" is not a port`},
		{config: "statsdUdpAddress: 'x:0'", warning: field + `"0" is not a port`},
		{config: "statsdUdpAddress: x", warning: field + "address x: missing port"},
		{config: "statsdUdpAddress: 'host.invalid:9125'", warning: field + "lookup host.invalid"},
		{config: "extraStatTags: [a-b]", warning: `extraStatTags: invalid label name "a-b"`},
		{config: "proxyStatsMatcher: {inclusionRegexps: ['a(b']}", warning: "sidecar.istio.io/statsInclusion…): error parsing regexp: missing closing ): `a(b`"},
		{config: "proxyStatsMatcher: {inclusionPrefixes: ['']}", warning: "a prefix, suffix or regular expression is empty"},
		{annotations: map[string]string{"extraStatTags": "a b"}, warning: `extraStatTags: invalid label name "a b"`},
		{annotations: map[string]string{"statsInclusionRegexps": "["}, warning: "error parsing regexp"},
		{annotations: map[string]string{"statsHistogramBuckets": `{"a":[1,1],"b":[]}`}, warning: `annotation sidecar.istio.io/statsHistogramBuckets: the bounds of "a" must be distinct numbers above 0`},
		{annotations: map[string]string{"statsHistogramBuckets": "1,2"}, warning: "annotation sidecar.istio.io/statsHistogramBuckets: want a JSON object of lists of numbers: "},
		{annotations: map[string]string{"statsHistogramBins": "0"}, warning: `annotation sidecar.istio.io/statsHistogramBins: "0" is not a number from 1 to 46082`},
		{annotations: map[string]string{"statsFlushInterval": "5"}, warning: `annotation sidecar.istio.io/statsFlushInterval: "5" is not a duration such as 5s`},
		{annotations: map[string]string{"statsFlushInterval": "5m"}, warning: "annotation sidecar.istio.io/statsFlushInterval: 5m0s is not less than 5m0s"},
		{annotations: map[string]string{"statsEvictionInterval": "-1s"}, warning: `annotation sidecar.istio.io/statsEvictionInterval: "-1s" is not a duration`},
		{annotations: map[string]string{"statsCompression": "lz4"}, warning: `annotation sidecar.istio.io/statsCompression: unknown algorithm "lz4": want brotli, gzip or zstd`},
	}
	for _, test := range tests {
		t.Run(test.warning, func(t *testing.T) {
			o := options(t, test.config, strings.Fields(test.variables)...)
			want := writtenBootstrap(t, o, func(o *Options) {
				o.Config.StatsdUdpAddress, o.Config.ExtraStatTags, o.Config.ProxyStatsMatcher = "", nil, nil
			})
			var log bytes.Buffer
			got := writtenBootstrap(t, o, func(o *Options) {
				o.Log = slog.New(slog.NewTextHandler(&log, nil))
				o.Node.Metadata.Annotations = map[string]string{}
				for name, value := range test.annotations {
					o.Node.Metadata.Annotations["sidecar.istio.io/"+name] = value
				}
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("bootstrap (-want +got):\n%s", diff)
			}
			if text := strings.ReplaceAll(log.String(), `\"`, `"`); !strings.Contains(text, test.warning) || !strings.Contains(text, "level=WARN") {
				t.Errorf("log %s", text)
			}
		})
	}
}

// writtenBootstrap returns the bootstrap that Prepare writes with changed options.
func writtenBootstrap(t *testing.T, o Options, change func(*Options)) string {
	t.Helper()
	o.Config = proto.CloneOf(o.Config)
	change(&o)
	c, err := Prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.Args[slices.Index(c.Args, "-c")+1])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestUnreadableOverrideIsAWarning tests that the agent starts Envoy without an override that it
// cannot read or parse, and logs that.
func TestUnreadableOverrideIsAWarning(t *testing.T) {
	invalid := filepath.Join(t.TempDir(), "o.yaml")
	if err := os.WriteFile(invalid, []byte("a: b: c"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"/nowhere.yaml": "open /nowhere.yaml: no such file", invalid: "mapping values are not allowed"} {
		o := options(t, "", "ISTIO_BOOTSTRAP_OVERRIDE="+file)
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		c, err := Prepare(t.Context(), o)
		if err != nil || slices.Contains(c.Args, "--config-yaml") {
			t.Errorf("%s: arguments %q, %v", file, c.Args, err)
		}
		if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, want) {
			t.Errorf("%s: log %s", file, text)
		}
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
