package command

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent"
)

// effective returns the options and warnings of a proxy command line.
func effective(t *testing.T, environ []string, args string) (agent.Options, string, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	var got agent.Options
	var warnings strings.Builder
	list := append([]string{"proxy", "sidecar"}, strings.Fields(args)...)
	root := NewWithRunner(Options{Environ: environ, Args: list, Stdout: io.Discard, Stderr: &warnings}, func(_ context.Context, o agent.Options) error {
		got = o
		return nil
	})
	root.SetArgs(list)
	err := root.ExecuteContext(t.Context())
	return got, warnings.String(), err
}

// TestRetiredFlagsWarn tests that each retired flag is reported with its successor.
func TestRetiredFlagsWarn(t *testing.T) {
	for _, test := range []struct{ flag, want string }{
		{"--binaryPath /opt/envoy", "warning: flag --binaryPath is deprecated: set ProxyConfig.binaryPath\n"},
		{"--configPath etc/old", "warning: flag --configPath is deprecated: set ProxyConfig.configPath\n"},
		{"--drainDuration=45s", "warning: flag --drainDuration is deprecated: set ProxyConfig.drainDuration\n"},
		{"--proxyAdminPort 15000", "warning: flag --proxyAdminPort is deprecated: set ProxyConfig.proxyAdminPort\n"},
		{"--controlPlaneAuthPolicy NONE --discoveryAddress a:15010", "warning: flag --controlPlaneAuthPolicy is deprecated: set ProxyConfig.controlPlaneAuthPolicy\n"},
		{"--statsdUdpAddress 192.0.2.1:9125", "warning: flag --statsdUdpAddress is deprecated: set ProxyConfig.statsdUdpAddress\n"},
		{"--discoveryAddress pilot:15012", "warning: flag --discoveryAddress is deprecated: set ProxyConfig.discoveryAddress\n"},
		{"--zipkinAddress zipkin:9411", "warning: flag --zipkinAddress is deprecated: set ProxyConfig.tracing.zipkin.address"},
		{"--parentShutdownDuration 1m0s", "warning: flag --parentShutdownDuration is retired and has no effect: Envoy is not restarted hot; set ProxyConfig.terminationDrainDuration\n"},
		{"--connectTimeout 10s", "warning: flag --connectTimeout is retired and has no effect: set MeshConfig.connectTimeout"},
		{"--discoveryRefreshDelay 1s", "warning: flag --discoveryRefreshDelay is retired and has no effect: configuration is pushed, not polled"},
		{"--trust-domain td", "warning: flag --trust-domain is retired and has no effect: set the environment variable TRUST_DOMAIN\n"},
		{"--disableInternalTelemetry", "warning: flag --disableInternalTelemetry is retired and has no effect: use Telemetry\n"},
	} {
		t.Run(test.flag, func(t *testing.T) {
			_, warnings, err := effective(t, good(), test.flag)
			if err != nil || !strings.Contains(warnings, test.want) || strings.Contains(warnings, "unknown flag") {
				t.Errorf("warnings %q, %v; want %q", warnings, err, test.want)
			}
		})
	}
}

// TestRetiredFlagsSetFields tests that each retired flag that has a successor sets its field of
// ProxyConfig.
func TestRetiredFlagsSetFields(t *testing.T) {
	for _, test := range []struct {
		flag, want string
		get        func(*meshconfig.ProxyConfig) any
	}{
		{"--binaryPath /opt/envoy", "/opt/envoy", func(c *meshconfig.ProxyConfig) any { return c.GetBinaryPath() }},
		{"--configPath etc/old", "etc/old", func(c *meshconfig.ProxyConfig) any { return c.GetConfigPath() }},
		{"--drainDuration=45s", "45s", func(c *meshconfig.ProxyConfig) any { return c.GetDrainDuration().AsDuration() }},
		{"--proxyAdminPort 15999", "15999", func(c *meshconfig.ProxyConfig) any { return c.GetProxyAdminPort() }},
		{
			"--controlPlaneAuthPolicy NONE", "NONE",
			func(c *meshconfig.ProxyConfig) any { return c.GetControlPlaneAuthPolicy() },
		},
		{
			"--controlPlaneAuthPolicy MUTUAL_TLS", "MUTUAL_TLS",
			func(c *meshconfig.ProxyConfig) any { return c.GetControlPlaneAuthPolicy() },
		},
		{
			"--statsdUdpAddress 192.0.2.1:9125", "192.0.2.1:9125",
			func(c *meshconfig.ProxyConfig) any { return c.GetStatsdUdpAddress() },
		},
		{
			"--discoveryAddress pilot:26000", "pilot:26000",
			func(c *meshconfig.ProxyConfig) any { return c.GetDiscoveryAddress() },
		},
		{
			"--zipkinAddress zipkin:9411", "zipkin:9411",
			func(c *meshconfig.ProxyConfig) any { return c.GetTracing().GetZipkin().GetAddress() },
		},
	} {
		t.Run(test.flag, func(t *testing.T) {
			o, _, err := effective(t, good(), test.flag)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(test.get(o.Config)); got != test.want {
				t.Errorf("the field is %q, want %q", got, test.want)
			}
		})
	}
}

// TestIgnoredFieldsWarn tests that unknown fields of each layer of ProxyConfig are reported and do
// not prevent the start.
func TestIgnoredFieldsWarn(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "mesh", []byte("newField: 1\ndefaultConfig: {statusPrt: 1, statusPort: 16020}\n"))
	path, err := filepath.Abs("mesh")
	if err != nil {
		t.Fatal(err)
	}
	environ := append(good(), `PROXY_CONFIG={"concurency":1,"discoveryAddress":"env:15010","controlPlaneAuthPolicy":"NONE"}`)
	o, warnings, err := effective(t, environ, "--meshConfig "+path)
	if err != nil || o.Config.GetStatusPort() != 16020 || o.Config.GetDiscoveryAddress() != "env:15010" {
		t.Fatalf("%v, %v", o.Config, err)
	}
	const unknown = " is not known to this version of meshpilot, and has no effect; did you mean "
	want := "warning: proxy configuration from " + path + ` (defaultConfig): field "statusPrt"` + unknown + `"statusPort"?` + "\n" +
		`warning: proxy configuration from PROXY_CONFIG: field "concurency"` + unknown + `"concurrency"?` + "\n"
	if warnings != want {
		t.Errorf("warnings are\n%s\nwant\n%s", warnings, want)
	}
}

// TestRetiredFlagsTakePrecedence tests that a flag overrides its field in PROXY_CONFIG and no other
// field.
func TestRetiredFlagsTakePrecedence(t *testing.T) {
	environ := append(good(), `PROXY_CONFIG={"controlPlaneAuthPolicy":"NONE","discoveryAddress":"env:15010","drainDuration":"7s","statusPort":16020}`)
	o, _, err := effective(t, environ, "--discoveryAddress flag:26000 --drainDuration 1m30s --statsdUdpAddress= --zipkinAddress z:9411")
	if err != nil {
		t.Fatal(err)
	}
	c := o.Config
	if c.GetDiscoveryAddress() != "flag:26000" || c.GetDrainDuration().AsDuration() != 90*time.Second || c.GetStatusPort() != 16020 ||
		c.GetTracing().GetZipkin().GetAddress() != "z:9411" {
		t.Errorf("effective configuration %v", c)
	}
}

// TestRetiredPorts tests that the host of an old control plane is kept and its port is replaced by
// the current xDS port.
func TestRetiredPorts(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--discoveryAddress istio-pilot.istio-system:15007 --controlPlaneAuthPolicy NONE", "istio-pilot.istio-system:15010"},
		{"--discoveryAddress istio-pilot.istio-system:15011 --controlPlaneAuthPolicy MUTUAL_TLS", "istio-pilot.istio-system:15012"},
		{"--discoveryAddress istio-pilot:15005", "istio-pilot:15012"},
		{"--discoveryAddress istio-pilot:15010", "istio-pilot:15012"}, // today's default is TLS
		{"--discoveryAddress istio-pilot:15010 --controlPlaneAuthPolicy NONE", "istio-pilot:15010"},
		{"--discoveryAddress istio-pilot:8080 --controlPlaneAuthPolicy NONE", "istio-pilot:15010"},
		{"--discoveryAddress [2001:db8::1]:15003 --controlPlaneAuthPolicy NONE", "[2001:db8::1]:15010"},
		{"--discoveryAddress 127.0.0.1:40123", "127.0.0.1:40123"},
	} {
		t.Run(test.args, func(t *testing.T) {
			o, warnings, err := effective(t, []string{"POD_NAME=a", "POD_NAMESPACE=ns", "INSTANCE_IPS=10.0.0.1"}, test.args)
			if err != nil {
				t.Fatal(err)
			}
			if got := o.Config.GetDiscoveryAddress(); got != test.want {
				t.Errorf("discovery address %s, want %s", got, test.want)
			}
			if reported := strings.Contains(warnings, "using "+test.want); reported != !strings.Contains(test.args, test.want) {
				t.Errorf("warnings %q", warnings)
			}
		})
	}
	// Only the flag's address: in current settings ports are used as they are.
	o, warnings, err := effective(t, append(good(), `PROXY_CONFIG={"controlPlaneAuthPolicy":"NONE","discoveryAddress":"env:15007"}`), "")
	if err != nil || o.Config.GetDiscoveryAddress() != "env:15007" || warnings != "" {
		t.Errorf("PROXY_CONFIG: %s, warnings %q, %v", o.Config.GetDiscoveryAddress(), warnings, err)
	}
}

// TestRetiredFlagsAreChecked tests that an invalid value is an error that names the flag.
func TestRetiredFlagsAreChecked(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"--drainDuration soon", `"--drainDuration" flag`},
		{"--proxyAdminPort 70000", `"--proxyAdminPort" flag`},
		{"--controlPlaneAuthPolicy MAYBE", "flag --controlPlaneAuthPolicy"},
		{"--discoveryAddress istio-pilot", `field "discoveryAddress": "istio-pilot" is not host:port`},
	} {
		if _, _, err := effective(t, good(), test.args); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.args, err, test.want)
		}
	}
}
