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
	// stopPatience is what Envoy has between SIGTERM and SIGKILL.
	stopPatience = 5 * time.Second
	// adminTimeout bounds a question to Envoy while it is drained.
	adminTimeout = 2 * time.Second
	// connectionPoll is how often active connections are counted.
	connectionPoll = 500 * time.Millisecond
)

// watch waits for the end: of Envoy, or of the context, or because the status port was asked for it.
func (a *agent) watch(ctx context.Context) error {
	for {
		select {
		case g := <-a.exited:
			if err := a.gone(g); err != nil {
				return err
			}
		case h := <-a.tookOver:
			a.takenOver(ctx, h)
		case <-a.restartNow:
			a.restart(ctx)
		case <-a.Hangup:
			if !a.Environment.HotRestart || a.current == nil {
				return a.shutdown(ctx)
			}
			a.failures = 0
			a.restart(ctx)
		case <-a.drainNow:
			a.drain(ctx)
		case <-a.quitNow:
			a.Log.Info("ending without draining")
			return a.stop()
		case <-ctx.Done():
			return a.shutdown(ctx)
		}
	}
}

// shutdown drains Envoy and ends it.
func (a *agent) shutdown(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	before := a.draining
	a.drain(ctx)
	a.waitDrained(ctx, before)
	return a.stop()
}

// drain lets clients go elsewhere. Envoy goes on to serve them.
func (a *agent) drain(ctx context.Context) {
	if a.draining {
		return
	}
	a.draining, a.drainBegan = true, time.Now()
	a.readiness.Drain()
	if a.current == nil {
		return
	}
	a.Log.Info("draining")
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	// The application may still call others while it ends, so a sidecar drains its inbound side only.
	if err := a.admin.Drain(ctx, a.Node.Type == mesh.SidecarProxy); err != nil {
		a.Log.Warn("drain: " + err.Error())
	}
}

// waitDrained waits for the termination drain duration, or until no connection is left where that is asked for. Envoy's
// end, or a second wish to end, cuts it short.
//
// before says that draining was asked for earlier. So does the hook of a sidecar that is ended after its application: what
// clients have learned since then they need not be given time for, and with nobody connected there is nothing to wait for.
// But an application that ends at once gives them no time at all, and requests of theirs are still on their way.
func (a *agent) waitDrained(ctx context.Context, before bool) {
	if a.current == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	passed := time.Since(a.drainBegan)
	var limit <-chan time.Time
	var idle <-chan struct{}
	if a.Environment.ExitOnZeroActiveConnections {
		// No limit of our own: whoever set this relies on the grace period of the platform.
		a.Log.Info("waiting until no client is connected", "at_least", a.Environment.MinimumDrainDuration.String())
		idle = a.untilIdle(ctx, a.Environment.MinimumDrainDuration-passed)
	} else {
		wait := a.Config.GetTerminationDrainDuration().AsDuration()
		if a.Environment.TerminationDrainDuration >= 0 {
			wait = a.Environment.TerminationDrainDuration
		}
		a.Log.Info("letting requests under way finish", "for", wait.String())
		timer := time.NewTimer(wait - passed)
		defer timer.Stop()
		limit = timer.C
		if before {
			idle = a.untilIdle(ctx, 0)
		}
	}
	select {
	case <-limit:
	case <-idle:
		a.Log.Info("no client is connected any more")
	case <-a.current.process.Exited():
	case <-a.quitNow:
		a.Log.Info("draining no longer")
	case <-a.Hurry:
		a.Log.Info("asked a second time to end: draining no longer")
	}
}

// untilIdle gives a channel that is closed when no client is connected any more, but not before a time has passed.
func (a *agent) untilIdle(ctx context.Context, atLeast time.Duration) <-chan struct{} {
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
			connections, text := a.connections(ctx)
			if connections == 0 {
				close(idle)
				return
			}
			if text != last {
				a.Log.Info("still waiting for clients", "connections", text)
			}
			last = text
			wait.Reset(connectionPoll)
		}
	}()
	return idle
}

// connections counts those of clients, as a number and as a text that says why if they cannot be counted. They are then
// taken to be there.
func (a *agent) connections(ctx context.Context) (count uint64, text string) {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	n, err := a.admin.ActiveConnections(ctx, a.Environment.EnvoyStatusPort, a.Environment.EnvoyPrometheusPort)
	if err != nil {
		return 1, err.Error()
	}
	return n, strconv.FormatUint(n, 10)
}

// stop ends all Envoys. One that ended by itself meanwhile is reported as at any other time: requests were cut off.
func (a *agent) stop() error {
	if a.current == nil {
		return nil
	}
	select {
	case <-a.current.process.Exited():
		return errors.Join(a.ended(), a.stopAll())
	default:
		return a.stopAll()
	}
}

func (a *agent) stopAll() error {
	var all sync.WaitGroup
	for _, p := range a.processes() {
		all.Go(func() {
			timer := time.NewTimer(stopPatience)
			defer timer.Stop()
			exit := p.Stop(timer.C)
			if exit.Signal == syscall.SIGKILL {
				a.Log.Warn("envoy did not end within " + stopPatience.String() + " of being asked to, and was killed")
			} else {
				a.Log.Info("envoy " + exit.String() + ", as it was asked to")
			}
		})
	}
	all.Wait()
	return nil
}

// ended is the error of an Envoy that nobody had asked to end.
func (a *agent) ended() error {
	exit := a.current.process.Exit()
	a.Log.Error("envoy " + exit.String())
	return &envoy.ExitError{Exit: exit}
}
