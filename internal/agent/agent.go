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
	"github.com/meshpilot/meshpilot/internal/base/notify"
	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/base/recovery/serve"
)

// Options configure an agent.
type Options struct {
	Node node.Node
	// Config is the effective ProxyConfig, already validated.
	Config      *meshconfig.ProxyConfig
	Environment environment.Environment
	Levels      envoy.Levels
	// Applications are the application's metrics endpoints.
	Applications []environment.Application
	// Probes are the kubelet's probes of the application, by the path at which the agent serves
	// them.
	Probes map[string]probe.Probe
	// OutlierLogPath is the file to which Envoy logs ejected hosts. If empty, none is written.
	OutlierLogPath string
	// Profiling serves profiles of the agent at the status port (--profiling, default true).
	Profiling bool
	// LogJSON makes Envoy log as JSON, like the agent.
	LogJSON bool
	// Environ, Stdout and Stderr are passed to Envoy.
	Environ        []string
	Stdout, Stderr io.Writer
	Log            *slog.Logger
	// Scope returns the logger of a log scope, whose level can be set by name: xdsproxy, sds, cache
	// (certificates), dns, wasm, healthcheck, as in Istio's agent. If nil, Log is used for all.
	Scope func(name string) *slog.Logger
	// Abort is closed at the second signal to end: draining is cut short.
	Abort <-chan struct{}
	// Hangup receives each SIGHUP. With hot restart it replaces Envoy, otherwise it ends the agent.
	Hangup <-chan os.Signal

	// epoch is the hot restart epoch of the Envoy to start.
	epoch int
	// envoyUser is the user that Envoy runs as. If nil, it is the agent's.
	envoyUser *envoy.User
	// fileSocket is the SDS socket for secrets from files if another server has the workload's
	// identity. If empty, they are served at the identity's socket.
	fileSocket string
}

// agent is one run of the agent. The goroutine of handleEvents owns the Envoy processes; others
// send it requests through channels.
type agent struct {
	Options
	admin     *envoy.Admin
	readiness *status.Readiness
	metrics   *status.Metrics
	recovery  *recovery.Recorder
	// current is the active Envoy, nil without Envoy (DISABLE_ENVOY). With hot restart next is its
	// replacement while that starts, and older are replaced ones that still drain.
	current, next *envoyRun
	older         []*envoyRun
	// restartAgain requests another replacement after the current one. failures is the number of
	// consecutive failed replacements.
	restartAgain bool
	failures     int
	exited       chan *envoyRun
	handovers    chan handover
	// renewer keeps the workload's certificate valid, nil if no authority is used.
	renewer *identity.Renewer
	// dnsServer is the DNS proxy, nil if it is disabled.
	dnsServer *dns.Server
	// Requests: drainNow and quitNow by the status port, restartNow to replace Envoy.
	drainNow, quitNow, restartNow notify.Wake
	draining                      bool
	drainBegan                    time.Time
}

// Run opens status port and parts, and starts Envoy if RunEnvoy is set; if one fails, it closes the
// others and returns the error. When ctx ends, it drains and stops Envoy and then ends the parts. A
// request to quit skips the draining, and a failed part ends the other parts first. It returns nil,
// the error of a failed part, or an *envoy.ExitError if Envoy exits by itself.
func Run(ctx context.Context, o Options) error {
	begin := time.Now()
	o.envoyUser = userOfEnvoy(os.Getuid(), o.Environment.DNS.Address)
	a := newAgent(o)
	defer a.admin.Close()
	// Before Envoy starts: an Envoy whose agent cannot be reached would never become ready.
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(int(o.Config.GetStatusPort()))))
	if err != nil {
		return fmt.Errorf("status port (ProxyConfig.statusPort): %w", err)
	}
	p, err := a.openParts()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	// Parts and status port outlive ctx: probes, scrapes and configuration continue while Envoy
	// drains.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, serving := errgroup.WithContext(serving)
	p.startAll(serving, group)
	if o.Environment.RunEnvoy {
		if err := a.startEnvoy(ctx); err != nil {
			stop()
			return errors.Join(err, listener.Close(), group.Wait())
		}
	}
	err = a.serveAndWatch(ctx, serving, group, listener, begin)
	stop()
	return errors.Join(err, group.Wait())
}

// newAgent returns an agent that has started and opened nothing. The options must be valid.
func newAgent(o Options) *agent {
	port := uint16(o.Config.GetProxyAdminPort()) // validated
	a := &agent{
		Options:  o,
		admin:    envoy.NewAdmin(netip.AddrPortFrom(bootstrap.Localhost(o.Node.Addresses), port)),
		metrics:  status.NewMetrics(),
		drainNow: notify.NewWake(),
		quitNow:  notify.NewWake(),

		restartNow: notify.NewWake(),
		exited:     make(chan *envoyRun, maxAttempts*maxAttempts),
		handovers:  make(chan handover),
	}
	a.recovery = recovery.New(recovery.Options{Log: o.Log, Count: a.metrics.RecordPanic})
	a.readiness = status.NewReadiness(a.adminClient(), a.checkParts, o.Log)
	return a
}

// adminClient returns the Envoy that the status port queries, or a nil interface if RunEnvoy is not
// set.
func (a *agent) adminClient() status.Envoy {
	if !a.Environment.RunEnvoy {
		return nil
	}
	return a.admin
}

// startEnvoy starts the first Envoy, of epoch 0, and sets a.current to it. If that fails, a.current
// is nil and the error is returned.
func (a *agent) startEnvoy(ctx context.Context) (err error) {
	a.current, err = a.launchEnvoy(ctx, 0)
	return err
}

// serveAndWatch serves the status port in group until serving ends, and records the startup
// duration once the proxy is ready. It handles events until ctx ends, a part fails (which ends
// serving), Envoy exits or a client requests the end. It returns the result of handleEvents,
// without waiting for group.
func (a *agent) serveAndWatch(
	ctx, serving context.Context, group *errgroup.Group, l net.Listener, begin time.Time,
) error {
	watched, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(serving, end)() // if a part fails the agent ends
	handler := status.New(status.Options{
		Envoy: a.adminClient(), Readiness: a.readiness, Metrics: a.metrics,
		Applications: a.Applications, Workload: a.Node.Workload(), Log: a.Log,
		MetricsLocalhostOnly: a.Environment.MetricsLocalhostOnly,
		Quit:                 a.quitNow.Notify, Drain: a.drainNow.Notify,
		Names: a.dumpNameTable, Profiling: a.Profiling,
		Probes: &probe.Handler{Prober: a.newProber(), Probes: a.Probes, Log: a.Log},
	})
	group.Go(func() error { return status.Serve(serving, l, serve.Handler(a.recovery, handler)) })
	group.Go(func() error {
		a.recordStart(serving, begin)
		return nil
	})
	return a.handleEvents(watched)
}

// scopeLogger returns the logger of a log scope, or o.Log if o.Scope is nil.
func (o Options) scopeLogger(name string) *slog.Logger {
	if o.Scope == nil {
		return o.Log
	}
	return o.Scope(name)
}

// startPoll is how often the agent checks at startup whether the proxy is ready.
const startPoll = 500 * time.Millisecond

// recordStart checks the proxy every startPoll until it is ready, and then records the time since
// begin as the startup duration. It records nothing if ctx ends first. The check also logs the
// change to ready in pods without a readiness probe.
func (a *agent) recordStart(ctx context.Context, begin time.Time) {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if a.readiness.Check(ctx) == nil {
				a.metrics.RecordStartup(time.Since(begin))
				return
			}
		}
	}
}
