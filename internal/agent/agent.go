package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/bootstrap"
	"github.com/meshpilot/meshpilot/internal/agent/dns"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/identity"
	"github.com/meshpilot/meshpilot/internal/agent/node"
	"github.com/meshpilot/meshpilot/internal/agent/probe"
	"github.com/meshpilot/meshpilot/internal/agent/status"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/recovery/serve"
)

// Options are what an agent runs with.
type Options struct {
	Node node.Node
	// Config is the effective ProxyConfig, already validated.
	Config      *meshconfig.ProxyConfig
	Environment environment.Environment
	Levels      envoy.Levels
	// Application is where the application serves metrics; nil if nowhere.
	Application *environment.Application
	// Probes are kubelet's questions to the application, by the path that it asks the agent for.
	Probes map[string]probe.Probe
	// OutlierLogPath is where Envoy logs ejected hosts, "" for nowhere.
	OutlierLogPath string
	// LogJSON makes Envoy log as JSON, as the agent's own log does.
	LogJSON bool
	// Environ, Stdout and Stderr are Envoy's.
	Environ        []string
	Stdout, Stderr io.Writer
	Log            *slog.Logger
	// Scope gives the logger of a part, whose level can be set by name: xdsproxy, sds, cache (certificates), dns, wasm, healthcheck,
	// as Istio's agent has them. Nil: Log is of all.
	Scope func(name string) *slog.Logger
	// Hurry is closed when somebody asks a second time to end: draining is cut short.
	Hurry <-chan struct{}
	// Hangup is sent to for each SIGHUP: with hot restart it replaces Envoy, without it ends the agent.
	Hangup <-chan os.Signal

	// epoch counts Envoys that replace each other.
	epoch int
	// fileSocket is where files are served if another server has the workload's identity; "": where the identity is.
	fileSocket string
}

// agent is one run. Its own goroutine (watch) has the process and its end; others only send it requests.
type agent struct {
	Options
	admin     *envoy.Admin
	readiness *status.Readiness
	metrics   *status.Metrics
	recovery  *recovery.Recorder
	// current is the Envoy that counts, nil without Envoy (DISABLE_ENVOY). With hot restart next is the one that is to take its
	// place, and older are those that were replaced and have not ended yet.
	current, next *generation
	older         []*generation
	// again is whether Envoy is to be replaced once more, failures how often in a row it could not be.
	again    bool
	failures int
	exited   chan *generation
	tookOver chan handover
	// renewer keeps the workload's certificate; nil where nobody is asked for one.
	renewer *identity.Renewer
	// names answers DNS queries; nil where nobody asks.
	names *dns.Server
	// drainNow and quitNow are requests of the status port, restartNow is that Envoy be replaced.
	drainNow, quitNow, restartNow chan struct{}
	draining                      bool
	drainBegan                    time.Time
}

// Run starts Envoy and serves the status port until the context ends or Envoy does. When the context ends Envoy is
// drained and stopped, and the error is nil; an Envoy that ends by itself is an *envoy.ExitError.
func Run(ctx context.Context, o Options) error {
	begin := time.Now()
	a := newAgent(o)
	defer a.admin.Close()
	// First, for an Envoy whose agent cannot be asked would never become ready.
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(o.Config.GetStatusPort()))))
	if err != nil {
		return fmt.Errorf("status port (ProxyConfig.statusPort): %w", err)
	}
	p, err := a.open()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	// The parts and the status port outlive the context: probes, scrapes and configuration go on while Envoy drains.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(serving)
	p.start(serving, group)
	if !o.Environment.DisableEnvoy {
		if err := a.start(ctx); err != nil {
			stop()
			return errors.Join(err, listener.Close(), group.Wait())
		}
	}
	err = a.live(ctx, serving, group, listener, begin)
	stop()
	return errors.Join(err, group.Wait())
}

func newAgent(o Options) *agent {
	port := uint16(o.Config.GetProxyAdminPort()) // validated
	a := &agent{
		Options:  o,
		admin:    envoy.NewAdmin(netip.AddrPortFrom(bootstrap.Localhost(o.Node.Addresses), port)),
		metrics:  status.NewMetrics(),
		drainNow: make(chan struct{}, 1),
		quitNow:  make(chan struct{}, 1),

		restartNow: make(chan struct{}, 1),
		exited:     make(chan *generation, restarts*restarts),
		tookOver:   make(chan handover),
	}
	a.recovery = recovery.New(recovery.Options{Log: o.Log, Count: a.metrics.Panicked})
	a.readiness = status.NewReadiness(a.asked(), a.ready, o.Log)
	return a
}

// asked is the Envoy that the status port asks, nil if there is none.
func (a *agent) asked() status.Envoy {
	if a.Environment.DisableEnvoy {
		return nil
	}
	return a.admin
}

func (a *agent) start(ctx context.Context) (err error) {
	a.current, err = a.launch(ctx, 0)
	return err
}

// live serves the status port, and watches for the end.
func (a *agent) live(ctx, serving context.Context, group *errgroup.Group, l net.Listener, begin time.Time) error {
	watched, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(serving, end)() // without a part of it the agent is of no use
	handler := status.New(status.Options{
		Envoy: a.asked(), Readiness: a.readiness, Metrics: a.metrics, Application: a.Application, Workload: a.Node.Workload(), Log: a.Log,
		ForLocalhost: a.Environment.MetricsForLocalhost,
		Quit:         request(a.quitNow), Drain: request(a.drainNow),
		Names:  a.nameTable,
		Probes: &probe.Handler{Prober: a.prober(), Probes: a.Probes, Log: a.Log},
	})
	group.Go(func() error { return status.Serve(serving, l, serve.Handler(a.recovery, handler)) })
	group.Go(func() error {
		a.recordStart(serving, begin)
		return nil
	})
	return a.watch(watched)
}

// scope is the logger of a part.
func (o Options) scope(name string) *slog.Logger {
	if o.Scope == nil {
		return o.Log
	}
	return o.Scope(name)
}

// request gives a function that sends a request without waiting; one that is under way already is enough.
func request(to chan<- struct{}) func() {
	return func() {
		select {
		case to <- struct{}{}:
		default:
		}
	}
}

// startPoll is how often the agent looks whether the proxy has become ready, until it has.
const startPoll = 500 * time.Millisecond

// recordStart waits for the proxy to become ready once, for the metric and the log: not every pod is probed.
func (a *agent) recordStart(ctx context.Context, begin time.Time) {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if a.readiness.Check(ctx) == nil {
				a.metrics.Started(time.Since(begin))
				return
			}
		}
	}
}
