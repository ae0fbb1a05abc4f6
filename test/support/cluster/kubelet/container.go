package kubelet

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// container is one of a Pod, through all its restarts.
type container struct {
	pod    *pod
	spec   *corev1.Container
	policy corev1.RestartPolicy
	init   bool // one of the init containers, sidecars among them

	mu sync.Mutex
	// state is its current state, last the result of the previous run.
	state, last corev1.ContainerState
	restarts    int32
	started     bool // it runs, and its startup probe has succeeded
	ready       bool
	run         *process // nil while none runs
	supervised  bool     // a goroutine runs it
	grace       time.Duration

	up     event // its first start and the postStart hook are over
	ending event // it is to end
	over   event // it will not run again
}

func newContainer(p *pod, spec *corev1.Container, policy corev1.RestartPolicy, init bool) *container {
	c := &container{
		pod:    p,
		spec:   spec,
		policy: policy,
		init:   init,
		up:     newEvent(),
		ending: newEvent(),
		over:   newEvent(),
	}
	c.state.Waiting = &corev1.ContainerStateWaiting{Reason: "PodInitializing"}
	if len(p.object.Spec.InitContainers) == 0 || init {
		c.state.Waiting.Reason = "ContainerCreating"
	}
	// What never gets to run is over when it is to end.
	go func() {
		<-c.ending.done
		if c.isIdle() {
			c.over.happen()
		}
	}()
	return c
}

func (c *container) isSidecar() bool { return c.init && c.policy == corev1.RestartPolicyAlways }

// setState changes its state.
func (c *container) setState(f func()) {
	c.mu.Lock()
	f()
	c.mu.Unlock()
	c.pod.markChanged()
}

// The backoff of restarts is shorter than a real kubelet's (10 s to 5 min), so that tests end in
// time.
const (
	firstBackOff = 500 * time.Millisecond
	mostBackOff  = 10 * time.Second
)

// runContainer runs the container repeatedly, as its restart policy requires, until it is stopped.
func (c *container) runContainer() {
	if !c.beginRun() {
		return
	}
	defer c.over.happen()
	defer c.up.happen()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.ending.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	for backOff := firstBackOff; ctx.Err() == nil; backOff = min(2*backOff, mostBackOff) {
		began := time.Now()
		code, err := c.runOnce(ctx)
		if err != nil {
			c.setState(func() { c.state = waitingFor(err) })
			c.pod.k.events.emitWarning(c.pod.currentObject(), "Failed", "container %s: %v", c.spec.Name, err)
		} else if c.policy == corev1.RestartPolicyNever || (c.policy == corev1.RestartPolicyOnFailure && code == 0) {
			return
		}
		if time.Since(began) > mostBackOff {
			backOff = firstBackOff
		}
		if err == nil && ctx.Err() == nil {
			c.setState(func() { c.backOff(backOff) })
		}
		if sleepFor(ctx, backOff) && err == nil {
			c.setState(func() { c.restarts++ })
		}
	}
}

// beginRun records that the container starts to run; false when it is to end already.
func (c *container) beginRun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending.hasHappened() {
		c.up.happen()
		c.over.happen()
		return false
	}
	c.supervised = true
	return true
}

// isIdle reports whether nothing runs it or will run it.
func (c *container) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.supervised
}

// backOff shows that it waits to be started again.
func (c *container) backOff(d time.Duration) {
	if c.state.Terminated == nil {
		return
	}
	c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: fmt.Sprintf("back-off %s restarting container %s", d, c.spec.Name),
	}}
}

// awaitTurn waits until the next init container may start: this one has ended well, or is a sidecar
// that has started. It returns false if the Pod must end, or has failed.
func (c *container) awaitTurn(ctx context.Context) bool {
	if !c.isSidecar() {
		select {
		case <-ctx.Done():
			return false
		case <-c.over.done:
			t := c.containerStatus().State.Terminated
			return t != nil && t.ExitCode == 0
		}
	}
	for {
		c.mu.Lock()
		started := c.started
		c.mu.Unlock()
		if started {
			select {
			case <-c.up.done:
				return true
			case <-ctx.Done():
				return false
			}
		}
		if !sleepFor(ctx, startPoll) {
			return false
		}
	}
}

const startPoll = 10 * time.Millisecond

// endRun requests that the run stops within a grace period, and does not wait. over happens when it
// has ended.
func (c *container) endRun(grace time.Duration) {
	c.mu.Lock()
	c.grace = grace
	c.mu.Unlock()
	c.ending.happen()
}

// prepareEnd runs the preStop hook of the current run. A hook that does not finish in time is
// aborted.
func (c *container) prepareEnd(within time.Duration) {
	c.mu.Lock()
	run := c.run
	c.mu.Unlock()
	if run == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		run.prepareEnd(ctx)
	}()
}

// containerStatus is its reported status.
func (c *container) containerStatus() corev1.ContainerStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: c.spec.Image, State: *c.state.DeepCopy(),
		Ready: c.ready, Started: new(c.started), RestartCount: c.restarts,
	}
	if c.state.Terminated == nil {
		s.LastTerminationState = *c.last.DeepCopy()
	}
	if c.state.Running != nil || c.last.Terminated != nil {
		s.ContainerID = fmt.Sprintf("process://%s-%s-%d", c.pod.uid, c.spec.Name, c.restarts)
	}
	if t := c.state.Terminated; c.init && !c.isSidecar() {
		s.Ready = t != nil && t.ExitCode == 0
	}
	return s
}
