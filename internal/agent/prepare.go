package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
)

// lookupTimeout bounds resolving the address of the statsd daemon.
const lookupTimeout = 10 * time.Second

// Prepare writes the bootstrap file, unless customConfigFile names one, and returns the command
// that starts Envoy with it. It does not start Envoy. It returns an error if the configuration or
// override is invalid, or a file other than the override cannot be read or written.
func Prepare(ctx context.Context, o Options) (envoy.Command, error) {
	path, err := configFile(ctx, o)
	if err != nil {
		return envoy.Command{}, err
	}
	override, err := readOverride(o)
	if err != nil {
		return envoy.Command{}, err
	}
	hotRestart, err := o.hotRestart()
	if err != nil {
		return envoy.Command{}, err
	}
	return envoy.Command{
		Path: o.Config.GetBinaryPath(),
		Args: envoy.BuildArgs(envoy.Settings{
			ConfigFile: path, Override: override, Config: o.Config, Levels: o.Levels, Addresses: o.Node.Addresses,
			LogDeprecations: o.Environment.LogDeprecations, HotRestart: hotRestart,
		}),
		Env: addWorkloadVariables(o.Environ, o.Node), Stdout: o.Stdout, Stderr: o.Stderr, User: o.envoyUser,
	}, nil
}

// configFile returns the path of Envoy's bootstrap. If ProxyConfig.customConfigFile is set, that
// file is used unchanged and must exist. Otherwise it writes a bootstrap to ProxyConfig.configPath,
// with hot restart one file for each epoch; a bootstrap template is then an error. Invalid settings
// of statistics, and a statsd address that cannot be resolved, are only logged and not used; other
// invalid settings are errors.
func configFile(ctx context.Context, o Options) (string, error) {
	if own := o.Config.GetCustomConfigFile(); own != "" {
		if _, err := os.Stat(own); err != nil {
			return "", fmt.Errorf("proxy configuration field %q: %w", "customConfigFile", err)
		}
		o.Log.Info("using the bootstrap of ProxyConfig.customConfigFile", "file", own)
		return own, nil
	}
	if err := refuseTemplate(o); err != nil {
		return "", err
	}
	statsd, err := resolveStatsd(ctx, o)
	if err != nil {
		o.Log.Warn("cannot resolve the address of statsd, which gets no statistics",
			"error", fmt.Errorf("proxy configuration field %q: %w", "statsdUdpAddress", err))
	}
	secureMetrics, secureMerged := o.secureMetricsPorts()
	b, warnings, err := bootstrap.Build(bootstrap.Input{
		Node: o.Node, Config: o.Config,
		StatusPort: o.Environment.EnvoyStatusPort, PrometheusPort: o.Environment.EnvoyPrometheusPort,
		MetricsLocalhostOnly: o.Environment.MetricsLocalhostOnly,
		SecureMetricsPort:    secureMetrics, SecureMergedMetricsPort: secureMerged,
		SocketMark: o.Environment.SocketMark, HostIP: o.Environment.HostIP, Statsd: statsd,
		StateOfTheWorld: !o.Environment.DeltaXDS,
		DiscoverySocket: o.discoverySocket(), IdentitySocket: o.identitySocket(), FileSocket: o.fileSocket,
		SystemRoots:      secret.SystemRoots(),
		CountConnections: o.Environment.ExitOnZeroActiveConnections,
		LogJSON:          o.LogJSON, OutlierLogPath: o.OutlierLogPath,
	})
	if err != nil {
		return "", err
	}
	for _, w := range warnings {
		o.Log.Warn("invalid setting of statistics ignored", "error", w)
	}
	body, err := bootstrap.EncodeJSON(b)
	if err != nil {
		return "", err
	}
	name := bootstrap.FileName
	if o.Environment.HotRestart { // the current Envoy has its own file
		name = fmt.Sprintf("envoy-rev%d.json", o.epoch)
	}
	path, err := bootstrap.WriteBootstrap(o.Config.GetConfigPath(), name, body)
	if err != nil {
		return "", err
	}
	// Envoy writes a file to the directory too, with hot restart.
	return path, errors.Join(o.envoyUser.Own(o.Config.GetConfigPath()), o.envoyUser.Own(path))
}

// secureMetricsPorts returns the ports that serve Envoy's own and merged metrics with mutual TLS, 0
// for none. Both are 0 if the workload has no certificate of the mesh.
func (o Options) secureMetricsPorts() (envoyOnly, merged uint32) {
	if !HasIdentity(o.Config, o.Environment) {
		return 0, 0
	}
	return o.Environment.EnvoySecureMetricsPort, o.Environment.EnvoySecureMergedMetricsPort
}

// refuseTemplate returns an error, which names the variable or field, if ISTIO_BOOTSTRAP or
// proxyBootstrapTemplatePath is set. Such templates are written for the variables of one release of
// Istio.
func refuseTemplate(o Options) error {
	const instead = "bootstrap templates are not supported: " +
		"use customConfigFile for a whole file, or ISTIO_BOOTSTRAP_OVERRIDE for parts of one"
	if o.Environment.BootstrapTemplate != "" {
		return errors.New("environment variable ISTIO_BOOTSTRAP: " + instead)
	}
	if o.Config.GetProxyBootstrapTemplatePath() != "" {
		return fmt.Errorf("proxy configuration field %q: %s", "proxyBootstrapTemplatePath", instead)
	}
	return nil
}

// readOverride returns the configuration that Envoy merges over the bootstrap, from the file
// ISTIO_BOOTSTRAP_OVERRIDE and with the host's IP substituted. It returns "" if the variable is not
// set. A file that cannot be read or is not YAML is logged and not used, as in Istio. It returns an
// error, which names the variable, if the file is YAML but not a valid override.
func readOverride(o Options) (string, error) {
	if o.Environment.BootstrapOverride == "" {
		return "", nil
	}
	text, err := os.ReadFile(o.Environment.BootstrapOverride)
	if err == nil {
		_, err = yaml.YAMLToJSON(text)
	}
	if err != nil {
		o.Log.Warn("cannot read the bootstrap override, starting Envoy without it",
			"file", o.Environment.BootstrapOverride,
			"error", fmt.Errorf("environment variable ISTIO_BOOTSTRAP_OVERRIDE: %w", err))
		return "", nil
	}
	override, err := bootstrap.ParseOverride(text, o.Environment.HostIP)
	if err != nil {
		return "", fmt.Errorf(
			"environment variable ISTIO_BOOTSTRAP_OVERRIDE: file %s: %w", o.Environment.BootstrapOverride, err)
	}
	return override, nil
}

// resolveStatsd returns the address of the statsd daemon (statsdUdpAddress), because Envoy does not
// resolve it, or the zero value if none is configured. It replaces references to the host's IP, and
// takes the first resolved address whose IP version the proxy has. It returns an error if the
// setting is invalid, there is no such address, or the lookup fails or takes longer than
// lookupTimeout.
func resolveStatsd(ctx context.Context, o Options) (netip.AddrPort, error) {
	address := o.Config.GetStatsdUdpAddress()
	if address == "" {
		return netip.AddrPort{}, nil
	}
	address, err := bootstrap.SubstituteHostIP(address, o.Environment.HostIP)
	if err != nil {
		return netip.AddrPort{}, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is not a port", port)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	// The first address of an IP version that the proxy has.
	for _, addr := range found {
		for _, own := range o.Node.Addresses {
			if addr.Unmap().Is4() == own.Is4() {
				return netip.AddrPortFrom(addr.Unmap(), uint16(number)), nil
			}
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%s has no address of an IP version of this host: %v", host, found)
}
