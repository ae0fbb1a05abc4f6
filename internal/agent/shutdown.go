package agent

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	// stopTimeout is the time between SIGTERM and SIGKILL.
	stopTimeout = 5 * time.Second
	// adminTimeout bounds a request to Envoy's admin interface during draining and handover.
	adminTimeout = 2 * time.Second
	// connectionPoll is how often active connections are counted.
	connectionPoll = 500 * time.Millisecond
)

// handleEvents handles exits, handovers and requests to restart or drain until the agent ends. It
// drains and stops Envoy when ctx ends, or at SIGHUP without hot restart or without Envoy; with
// both, SIGHUP replaces Envoy. A request to quit stops Envoy without draining. It returns an
// *envoy.ExitError if the active Envoy exits without having been stopped, otherwise nil.
func (a *agent) handleEvents(ctx context.Context) error {
	for {
		select {
		case g := <-a.exited:
			if err := a.handleExit(g); err != nil {
				return err
			}
		case h := <-a.handovers:
			a.completeHandover(ctx, h)
		case <-a.restartNow.C():
			a.startReplacement(ctx)
		case <-a.Hangup:
			if !a.Environment.HotRestart || a.current == nil {
				return a.drainAndStop(ctx)
			}
			a.failures = 0
			a.startReplacement(ctx)
		case <-a.drainNow.C():
			a.startDraining(ctx)
		case <-a.quitNow.C():
			a.Log.Info("ending without draining")
			return a.stopEnvoy()
		case <-ctx.Done():
			return a.drainAndStop(ctx)
		}
	}
}

// drainAndStop starts draining unless that has started, waits until Envoy is drained, and stops it,
// although ctx has ended. It returns the result of stopEnvoy.
func (a *agent) drainAndStop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	before := a.draining
	a.startDraining(ctx)
	a.waitDrained(ctx, before)
	return a.stopEnvoy()
}

// startDraining makes the proxy not ready and has Envoy ask clients to reconnect elsewhere; Envoy
// continues to serve. A sidecar drains only its inbound listeners. It does nothing if draining has
// started, and only changes readiness if no Envoy runs. A failure of Envoy's admin interface is
// only logged.
func (a *agent) startDraining(ctx context.Context) {
	if a.draining {
		return
	}
	a.draining, a.drainBegan = true, time.Now()
	a.readiness.StartDraining()
	if a.current == nil {
		return
	}
	a.Log.Info("draining")
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	// The application may still send requests while it ends, so a sidecar drains inbound listeners
	// only.
	if err := a.admin.DrainListeners(ctx, a.Node.Type == mesh.SidecarProxy); err != nil {
		a.Log.Warn("cannot drain envoy's listeners", "error", err)
	}
}

// waitDrained waits until the drain duration, the environment's or, if negative, ProxyConfig's, has
// passed since draining began. With before, which is set if a request has started draining, it
// waits at most until no connection is left. Otherwise, with ExitOnZeroActiveConnections, it waits
// until none is left and MinimumDrainDuration has passed, however long that takes. It returns at
// once without Envoy, and early at Envoy's exit, a request to quit or a second signal (a.Abort).
// The end of ctx only stops the count of connections.
func (a *agent) waitDrained(ctx context.Context, before bool) {
	if a.current == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	passed := time.Since(a.drainBegan)
	var limit <-chan time.Time
	var idle <-chan struct{}
	// A native sidecar is drained by request when its pod begins to terminate, and terminated when
	// the application has ended. Its remaining connections may never close.
	if a.Environment.ExitOnZeroActiveConnections && !before {
		// Without a timeout: the platform's grace period applies.
		a.Log.Info("draining until all connections are closed", "at_least", a.Environment.MinimumDrainDuration.String())
		idle = a.notifyIdle(ctx, a.Environment.MinimumDrainDuration-passed)
	} else {
		wait := a.Config.GetTerminationDrainDuration().AsDuration()
		if a.Environment.TerminationDrainDuration >= 0 {
			wait = a.Environment.TerminationDrainDuration
		}
		remaining := max(0, wait-passed)
		a.Log.Info("draining for the termination drain duration", "duration", wait.String(), "remaining",
			remaining.Round(time.Millisecond).String())
		timer := time.NewTimer(remaining)
		defer timer.Stop()
		limit = timer.C
		if before {
			idle = a.notifyIdle(ctx, 0)
		}
	}
	select {
	case <-limit:
	case <-idle:
		a.Log.Info("drained: all connections are closed")
	case <-a.current.process.Exited():
	case <-a.quitNow.C():
		a.Log.Info("draining aborted by quitquitquit")
	case <-a.Abort:
		a.Log.Info("draining aborted by a second signal")
	}
}

// notifyIdle returns a channel that is closed when no client is connected, but not before atLeast
// has passed, and never once ctx has ended. It starts a goroutine that counts connections every
// connectionPoll, and logs the count when it changes. A failed count is no end.
func (a *agent) notifyIdle(ctx context.Context, atLeast time.Duration) <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		wait := time.NewTimer(atLeast)
		defer wait.Stop()
		last := ""
		for {
			select {
			case <-wait.C:
			case <-ctx.Done():
				return
			}
			connections, text := a.countConnections(ctx)
			if connections == 0 {
				close(idle)
				return
			}
			if text != last {
				a.Log.Info("draining: connections are still open", "connections", text)
			}
			last = text
			wait.Reset(connectionPoll)
		}
	}()
	return idle
}

// countConnections returns the number of client connections, as a number and as text for the log.
// Connections to the ports of status and metrics are not counted. If Envoy cannot be queried, it
// returns 1 and the error's text.
func (a *agent) countConnections(ctx context.Context) (count uint64, text string) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	secureMetrics, secureMerged := a.secureMetricsPorts()
	n, err := a.admin.ActiveConnections(ctx,
		a.Environment.EnvoyStatusPort, a.Environment.EnvoyPrometheusPort, secureMetrics, secureMerged)
	if err != nil {
		return 1, err.Error()
	}
	return n, strconv.FormatUint(n, 10)
}

// stopEnvoy stops all Envoys. It returns an *envoy.ExitError if the active one had already exited
// by itself, because requests were cut off, and otherwise nil. It does nothing if no Envoy was
// started.
func (a *agent) stopEnvoy() error {
	if a.current == nil {
		return nil
	}
	select {
	case <-a.current.process.Exited():
		return errors.Join(a.exitError(), a.stopAll())
	default:
		return a.stopAll()
	}
}

// stopAll sends SIGTERM to all running Envoys concurrently, kills any that has not exited after
// stopTimeout, waits for their exit and logs it. It always returns nil.
func (a *agent) stopAll() error {
	var all sync.WaitGroup
	for _, p := range a.processes() {
		all.Go(func() {
			timer := time.NewTimer(stopTimeout)
			defer timer.Stop()
			exit := p.Stop(timer.C)
			if exit.Signal == syscall.SIGKILL {
				a.Log.Warn("envoy did not exit within " + stopTimeout.String() + " of SIGTERM and was killed")
			} else {
				a.Log.Info("envoy " + exit.String() + " after SIGTERM")
			}
		})
	}
	all.Wait()
	return nil
}

// exitError logs the exit of the active Envoy, which was not stopped, and returns it as an
// *envoy.ExitError.
func (a *agent) exitError() error {
	exit := a.current.process.Exit()
	a.Log.Error("envoy " + exit.String())
	return &envoy.ExitError{Exit: exit}
}
