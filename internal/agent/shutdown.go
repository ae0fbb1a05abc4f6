package agent

import (
	"context"
	"time"

	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/status"
	"github.com/meshpilot/meshpilot/internal/mesh"
)

const (
	// stopPatience is what Envoy has between SIGTERM and SIGKILL.
	stopPatience = 5 * time.Second
	// adminTimeout bounds a question to Envoy while it is drained.
	adminTimeout = 2 * time.Second
	// connectionPoll is how often active connections are counted.
	connectionPoll = 500 * time.Millisecond
)

// watch waits for the end: of Envoy, or of the context.
func watch(ctx context.Context, o Options, p *envoy.Process, admin *envoy.Admin, r *status.Readiness, drained <-chan struct{}) error {
	if p == nil {
		<-ctx.Done()
		return nil
	}
	select {
	case <-p.Exited():
		exit := p.Exit()
		o.Log.Error("envoy " + exit.String())
		return &envoy.ExitError{Exit: exit}
	case <-ctx.Done():
	}
	r.Drain()
	select {
	case <-drained:
		o.Log.Info("ending envoy without draining")
	default:
		drain(context.WithoutCancel(ctx), o, p, admin, drained)
	}
	exit := p.Stop(time.After(stopPatience))
	o.Log.Info("envoy " + exit.String() + ", as it was asked to")
	return nil
}

// drain lets clients go elsewhere, and waits for the termination drain duration, or until no connection is left where
// that is asked for. Envoy's end, or a second wish to end, cuts it short.
func drain(ctx context.Context, o Options, p *envoy.Process, admin *envoy.Admin, drained <-chan struct{}) {
	wait := o.Config.GetTerminationDrainDuration().AsDuration()
	if o.Environment.TerminationDrainDuration >= 0 {
		wait = o.Environment.TerminationDrainDuration
	}
	o.Log.Info("draining", "for", wait.String(), "until_idle", o.Environment.ExitOnZeroActiveConnections)
	ask, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	// The application may still call others while it ends, so a sidecar drains its inbound side only.
	if err := admin.Drain(ask, o.Node.Type == mesh.SidecarProxy); err != nil {
		o.Log.Warn("drain: " + err.Error())
	}
	limit := time.After(wait)
	idle := make(<-chan struct{})
	if o.Environment.ExitOnZeroActiveConnections {
		// No limit of our own: whoever set this relies on the grace period of the platform.
		limit = nil
		stop, cancel := context.WithCancel(ctx)
		defer cancel()
		idle = untilIdle(stop, o, admin)
	}
	select {
	case <-limit:
	case <-idle:
	case <-p.Exited():
	case <-o.Hurry:
		o.Log.Info("asked a second time to end: draining no longer")
	case <-drained:
	}
}

// untilIdle gives a channel that is closed when no client is connected any more, but not before the minimum.
func untilIdle(ctx context.Context, o Options, admin *envoy.Admin) <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		minimum := time.NewTimer(o.Environment.MinimumDrainDuration)
		defer minimum.Stop()
		select {
		case <-minimum.C:
		case <-ctx.Done():
			return
		}
		tick := time.NewTicker(connectionPoll)
		defer tick.Stop()
		for {
			ask, cancel := context.WithTimeout(ctx, adminTimeout)
			n, err := admin.ActiveConnections(ask, o.Environment.EnvoyStatusPort, o.Environment.EnvoyPrometheusPort)
			cancel()
			if err == nil && n == 0 {
				close(idle)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return idle
}
