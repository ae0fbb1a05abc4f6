package kubelet

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// allDone is closed when no container but sidecars will run any more.
func (p *pod) allDone() <-chan struct{} {
	done := make(chan struct{})
	spec := p.currentObject().Spec
	go func() {
		defer close(done)
		for i := range spec.Containers {
			<-p.containerNamed(spec.Containers[i].Name).over.done
		}
	}()
	return done
}

func (p *pod) outcomeOfContainers() corev1.PodPhase {
	spec := p.currentObject().Spec
	for i := range spec.Containers {
		if t := p.containerNamed(spec.Containers[i].Name).
			containerStatus().
			State.Terminated; t == nil ||
			t.ExitCode != 0 {
			return corev1.PodFailed
		}
	}
	return corev1.PodSucceeded
}

// setOutcome sets the outcome of the Pod, unless the Pod is being stopped.
func (p *pod) setOutcome(outcome corev1.PodPhase) {
	if p.stopping.hasHappened() {
		return
	}
	p.mu.Lock()
	p.outcome = outcome
	p.mu.Unlock()
	p.markChanged()
}

// sidecarGrace is what sidecars get when the Pod ended of itself.
const sidecarGrace = 5 * time.Second

// endContainers ends what still runs: the containers together, then the sidecars, the last started
// first. As with a real kubelet the preStop hooks of all run at once, at the beginning.
func (p *pod) endContainers() {
	p.mu.Lock()
	grace := p.grace
	if !p.stopping.hasHappened() {
		grace = sidecarGrace
	}
	p.mu.Unlock()
	deadline := time.Now().Add(grace)
	spec := p.currentObject().Spec
	var together []*container
	for i := range spec.Containers {
		together = append(together, p.containerNamed(spec.Containers[i].Name))
	}
	for i := range spec.InitContainers {
		if c := p.containerNamed(spec.InitContainers[i].Name); c != nil {
			c.prepareEnd(max(time.Until(deadline), 0))
		}
	}
	endAll(deadline, together...)
	for i := len(spec.InitContainers) - 1; i >= 0; i-- {
		endAll(deadline, p.containerNamed(spec.InitContainers[i].Name))
	}
}

func endAll(deadline time.Time, containers ...*container) {
	for _, c := range containers {
		if c != nil {
			c.endRun(max(time.Until(deadline), 0))
		}
	}
	for _, c := range containers {
		if c != nil {
			<-c.over.done
		}
	}
}

// sleepFor waits for a while. It returns false when ctx ended before.
func sleepFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
