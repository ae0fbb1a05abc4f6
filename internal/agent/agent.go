package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/agent/status"
)

// Options are what an agent runs with.
type Options struct {
	Node        node.Node
	Config      *meshconfig.ProxyConfig
	Environment environment.Environment
	Levels      envoy.Levels
	// Application is where the application serves metrics; nil if nowhere.
	Application    *environment.Application
	OutlierLogPath string
	LogJSON        bool
	// Environ is the environment that Envoy inherits.
	Environ []string
	Log     *slog.Logger
	// Hurry is closed when somebody asks a second time to end: draining is cut short.
	Hurry <-chan struct{}
}

// Run starts Envoy and serves the status port until the context ends or Envoy does. When the context ends Envoy is
// drained and stopped, and the error is nil; an Envoy that ends by itself is an *envoy.ExitError.
func Run(ctx context.Context, o Options) error {
	begin := time.Now()
	admin := envoy.NewAdmin(netip.AddrPortFrom(bootstrap.Localhost(o.Node.Addresses), uint16(o.Config.GetProxyAdminPort())))
	defer admin.Close()
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	drained := make(chan struct{}) // closed by /quitquitquit: nothing is left worth waiting for

	metrics := status.NewMetrics()
	readiness := status.NewReadiness(admin, o.Log)
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(o.Config.GetStatusPort()))))
	if err != nil {
		return fmt.Errorf("status port (ProxyConfig.statusPort): %w", err)
	}
	handler := status.New(status.Options{
		Envoy: admin, Readiness: readiness, Metrics: metrics, Application: o.Application, Log: o.Log,
		Quit:  onceFunc(func() { close(drained); quit() }),
		Drain: quit,
	})

	var process *envoy.Process
	if !o.Environment.DisableEnvoy {
		if process, err = start(o); err != nil {
			return errors.Join(err, listener.Close())
		}
		o.Log.Info("envoy runs", "pid", process.PID())
	}
	// The status port outlives the context: probes must see the draining.
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	group, watching := errgroup.WithContext(serving)
	group.Go(func() error { return status.Serve(serving, listener, handler) })
	group.Go(func() error { return recordStart(watching, readiness, metrics, begin) })
	result := watch(ctx, o, process, admin, readiness, drained)
	stopServing()
	if err := group.Wait(); result == nil && err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return result
}

func onceFunc(f func()) func() {
	done := make(chan struct{}, 1)
	done <- struct{}{}
	return func() {
		select {
		case <-done:
			f()
		default:
		}
	}
}

// start writes the bootstrap and starts Envoy with it.
func start(o Options) (*envoy.Process, error) {
	path, err := configFile(o)
	if err != nil {
		return nil, err
	}
	override := ""
	if o.Environment.BootstrapOverride != "" {
		text, err := os.ReadFile(o.Environment.BootstrapOverride)
		if err != nil {
			return nil, fmt.Errorf("read ISTIO_BOOTSTRAP_OVERRIDE: %w", err)
		}
		override = string(text)
	}
	return envoy.Start(envoy.Command{
		Path: o.Config.GetBinaryPath(),
		Args: envoy.Args(envoy.Settings{
			ConfigFile: path, Override: override, Config: o.Config, Levels: o.Levels, Addresses: o.Node.Addresses,
			SkipDeprecatedLogs: o.Environment.SkipDeprecatedLogs,
		}),
		Env: o.Environ, Stdin: nil, Stdout: os.Stdout, Stderr: os.Stderr,
	})
}

// configFile gives the file that Envoy starts with: one that the user brings is used as it is.
func configFile(o Options) (string, error) {
	if own := o.Config.GetCustomConfigFile(); own != "" {
		o.Log.Info("using the user's bootstrap", "file", own)
		return own, nil
	}
	if own := o.Environment.BootstrapTemplate; own != "" || o.Config.GetProxyBootstrapTemplatePath() != "" {
		return "", fmt.Errorf("bootstrap templates are not supported (%s%s): use customConfigFile for a whole file, or ISTIO_BOOTSTRAP_OVERRIDE for parts of one",
			own, o.Config.GetProxyBootstrapTemplatePath())
	}
	statsd, err := resolveStatsd(o.Config.GetStatsdUdpAddress())
	if err != nil {
		return "", err
	}
	b, err := bootstrap.Build(bootstrap.Input{
		Node: o.Node, Config: o.Config, StatusPort: o.Environment.EnvoyStatusPort, PrometheusPort: o.Environment.EnvoyPrometheusPort,
		SocketMark: o.Environment.SocketMark, HostIP: o.Environment.HostIP, Statsd: statsd,
		CountConnections: o.Environment.ExitOnZeroActiveConnections, LogJSON: o.LogJSON, OutlierLogPath: o.OutlierLogPath,
	})
	if err != nil {
		return "", err
	}
	body, err := bootstrap.JSON(b)
	if err != nil {
		return "", err
	}
	return bootstrap.Write(o.Config.GetConfigPath(), body)
}

// resolveStatsd looks up the statsd daemon's address, which Envoy does not do.
func resolveStatsd(address string) (netip.AddrPort, error) {
	if address == "" {
		return netip.AddrPort{}, nil
	}
	resolved, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("proxy configuration field %q: %w", "statsdUdpAddress", err)
	}
	return resolved.AddrPort(), nil
}

// recordStart waits for the proxy to become ready once, for the metric and the log.
func recordStart(ctx context.Context, r *status.Readiness, m *status.Metrics, begin time.Time) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if r.Check(ctx) == nil {
				m.Started(time.Since(begin))
				return nil
			}
		}
	}
}
