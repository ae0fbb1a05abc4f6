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

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/secret"
)

// lookupTimeout bounds the look-up of the statsd daemon.
const lookupTimeout = 10 * time.Second

// Prepare writes the bootstrap file, and gives the command that starts Envoy with it.
func Prepare(ctx context.Context, o Options) (envoy.Command, error) {
	path, err := configFile(ctx, o)
	if err != nil {
		return envoy.Command{}, err
	}
	override, err := readOverride(o)
	if err != nil {
		return envoy.Command{}, err
	}
	family, err := o.family()
	if err != nil {
		return envoy.Command{}, err
	}
	return envoy.Command{
		Path: o.Config.GetBinaryPath(),
		Args: envoy.Args(envoy.Settings{
			ConfigFile: path, Override: override, Config: o.Config, Levels: o.Levels, Addresses: o.Node.Addresses,
			SkipDeprecatedLogs: o.Environment.SkipDeprecatedLogs, Family: family,
		}),
		Env: withIdentity(o.Environ, o.Node), Stdout: o.Stdout, Stderr: o.Stderr,
	}, nil
}

// configFile gives the file that Envoy starts with: one that the user brings is used as it is.
func configFile(ctx context.Context, o Options) (string, error) {
	if own := o.Config.GetCustomConfigFile(); own != "" {
		if _, err := os.Stat(own); err != nil {
			return "", fmt.Errorf("proxy configuration field %q: %w", "customConfigFile", err)
		}
		o.Log.Info("using the user's bootstrap", "file", own)
		return own, nil
	}
	if err := refuseTemplate(o); err != nil {
		return "", err
	}
	statsd, err := resolveStatsd(ctx, o)
	if err != nil {
		return "", fmt.Errorf("proxy configuration field %q: %w", "statsdUdpAddress", err)
	}
	b, err := bootstrap.Build(bootstrap.Input{
		Node: o.Node, Config: o.Config, StatusPort: o.Environment.EnvoyStatusPort, PrometheusPort: o.Environment.EnvoyPrometheusPort,
		MetricsForLocalhost: o.Environment.MetricsForLocalhost,
		SocketMark:          o.Environment.SocketMark, HostIP: o.Environment.HostIP, Statsd: statsd,
		StateOfTheWorld: !o.Environment.DeltaXDS,
		DiscoverySocket: o.discoverySocket(), IdentitySocket: o.identitySocket(), FileSocket: o.fileSocket,
		SystemRoots:      secret.SystemRoots(),
		CountConnections: o.Environment.ExitOnZeroActiveConnections, LogJSON: o.LogJSON, OutlierLogPath: o.OutlierLogPath,
	})
	if err != nil {
		return "", err
	}
	body, err := bootstrap.JSON(b)
	if err != nil {
		return "", err
	}
	name := bootstrap.FileName
	if o.Environment.HotRestart { // the Envoy before has its own
		name = fmt.Sprintf("envoy-rev%d.json", o.epoch)
	}
	return bootstrap.Write(o.Config.GetConfigPath(), name, body)
}

// refuseTemplate refuses bootstrap templates. They are written for the values and names of one release of Istio.
func refuseTemplate(o Options) error {
	const instead = "bootstrap templates are not supported: use customConfigFile for a whole file, or ISTIO_BOOTSTRAP_OVERRIDE for parts of one"
	if o.Environment.BootstrapTemplate != "" {
		return errors.New("environment variable ISTIO_BOOTSTRAP: " + instead)
	}
	if o.Config.GetProxyBootstrapTemplatePath() != "" {
		return fmt.Errorf("proxy configuration field %q: %s", "proxyBootstrapTemplatePath", instead)
	}
	return nil
}

// readOverride gives what Envoy merges over the bootstrap, "" for nothing.
func readOverride(o Options) (string, error) {
	if o.Environment.BootstrapOverride == "" {
		return "", nil
	}
	text, err := os.ReadFile(o.Environment.BootstrapOverride)
	if err != nil {
		return "", fmt.Errorf("environment variable ISTIO_BOOTSTRAP_OVERRIDE: %w", err)
	}
	override, err := bootstrap.Override(text, o.Environment.HostIP)
	if err != nil {
		return "", fmt.Errorf("environment variable ISTIO_BOOTSTRAP_OVERRIDE: file %s: %w", o.Environment.BootstrapOverride, err)
	}
	return override, nil
}

// resolveStatsd looks up the statsd daemon's address, which Envoy does not do; the zero value if there is none.
func resolveStatsd(ctx context.Context, o Options) (netip.AddrPort, error) {
	address := o.Config.GetStatsdUdpAddress()
	if address == "" {
		return netip.AddrPort{}, nil
	}
	address, err := bootstrap.WithHostIP(address, o.Environment.HostIP)
	if err != nil {
		return netip.AddrPort{}, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not a port", port)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	// Of several, one of a version that the proxy has.
	for _, addr := range found {
		for _, own := range o.Node.Addresses {
			if addr.Unmap().Is4() == own.Is4() {
				return netip.AddrPortFrom(addr.Unmap(), uint16(number)), nil
			}
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%s has addresses only of an IP version that this host has not: %v", host, found)
}
