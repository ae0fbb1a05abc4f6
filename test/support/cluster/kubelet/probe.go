package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// runProbes runs the startup probe until it succeeds, then the others until the run ends.
func (p *process) runProbes(ctx context.Context) {
	c := p.container
	if c.spec.StartupProbe != nil {
		if !p.awaitStartup(ctx, c.spec.StartupProbe) {
			return
		}
		c.setState(func() { c.started, c.ready = true, c.spec.ReadinessProbe == nil })
	}
	var both sync.WaitGroup
	if l := c.spec.LivenessProbe; l != nil {
		both.Go(func() { p.watchLife(ctx, l) })
	}
	if r := c.spec.ReadinessProbe; r != nil {
		both.Go(func() {
			p.repeatProbe(ctx, "Readiness", r, func(success bool) bool {
				c.mu.Lock()
				same := c.ready == success
				c.mu.Unlock()
				if !same {
					c.setState(func() { c.ready = success })
				}
				return true
			})
		})
	}
	both.Wait()
}

func (p *process) awaitStartup(ctx context.Context, probe *corev1.Probe) bool {
	succeeded := false
	p.repeatProbe(ctx, "Startup", probe, func(success bool) bool {
		succeeded = success
		return false
	})
	if !succeeded && ctx.Err() == nil {
		p.killProcess(p.ownGrace(probe), fmt.Errorf("failed startup probe, will be restarted"))
	}
	return succeeded && ctx.Err() == nil
}

// watchLife kills the run when the liveness probe fails; a container that must end is not probed.
func (p *process) watchLife(ctx context.Context, probe *corev1.Probe) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.container.ending.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	dead := false
	p.repeatProbe(ctx, "Liveness", probe, func(success bool) bool {
		dead = !success
		return success
	})
	if dead && ctx.Err() == nil {
		p.killProcess(p.ownGrace(probe), fmt.Errorf("failed liveness probe, will be restarted"))
	}
}

// repeatProbe runs a probe at its interval until ctx ends or verdict, which is called at each
// threshold reached, ends it.
func (p *process) repeatProbe(
	ctx context.Context,
	kind string,
	probe *corev1.Probe,
	verdict func(success bool) (more bool),
) {
	if probe.InitialDelaySeconds > 0 && !sleepFor(ctx, secondsOf(probe.InitialDelaySeconds)) {
		return
	}
	for good, bad := int32(0), int32(0); ; {
		err := p.askOnce(ctx, probe)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			good, bad = good+1, 0
		} else {
			good, bad = 0, bad+1
			p.container.pod.k.events.emitWarning(
				p.container.pod.currentObject(),
				"Unhealthy",
				"%s probe of %s failed: %v",
				kind,
				p.container.spec.Name,
				err,
			)
		}
		if (good >= max(probe.SuccessThreshold, 1) && !verdict(true)) ||
			(bad >= max(probe.FailureThreshold, 1) && !verdict(false)) {
			return
		}
		// A container that is not ready yet is probed more often than configured, for tests that
		// wait for it.
		period := secondsOf(max(probe.PeriodSeconds, 1))
		if good == 0 && bad < max(probe.FailureThreshold, 1) && kind == "Readiness" {
			period = min(period, eagerness)
		}
		if !sleepFor(ctx, period) {
			return
		}
	}
}

// eagerness is the initial interval of readiness probes.
const eagerness = 500 * time.Millisecond

func (p *process) askOnce(ctx context.Context, probe *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, secondsOf(max(probe.TimeoutSeconds, 1)))
	defer cancel()
	return p.runCheck(ctx, probe.ProbeHandler)
}

func secondsOf(n int32) time.Duration { return time.Duration(n) * time.Second }
