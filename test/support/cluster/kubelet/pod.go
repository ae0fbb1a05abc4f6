package kubelet

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/base/notify"
)

// pod is a Pod that runs here: sandbox, volumes, init containers, containers, and all of it back
// again. Its own goroutine (run) takes it through that; others report its object (update) and its
// end (terminate), and read its state.
type pod struct {
	k               *kubelet
	namespace, name string
	uid             types.UID
	dir             string
	network         *podNetwork
	started         metav1.Time
	log             *slog.Logger
	tokens          tokens // of the goroutine that writes volumes

	mu         sync.Mutex
	object     *corev1.Pod
	containers map[string]*container // to be run, by name
	// initialized: all init containers are done, or ready if they are sidecars.
	initialized bool
	// outcome is Succeeded or Failed once the Pod has ended of itself.
	outcome corev1.PodPhase
	told    corev1.PodStatus // the last status sent to the API server
	grace   time.Duration

	changed  notify.Wake // the status may have
	stopping event       // it is to end
	forced   event       // at once
	leaving  event       // with the kubelet: its object stays as it is
}

func newPod(k *kubelet, object *corev1.Pod) *pod {
	return &pod{
		k:          k,
		namespace:  object.Namespace,
		name:       object.Name,
		uid:        object.UID,
		dir:        k.filePath("pods", string(object.UID)),
		started:    metav1.Now(),
		log:        k.Log.With("pod", object.Namespace+"/"+object.Name),
		tokens:     tokens{},
		object:     object,
		containers: map[string]*container{},
		changed:    notify.NewWake(),
		stopping:   newEvent(),
		forced:     newEvent(),
		leaving:    newEvent(),
	}
}

// event is something that happens once.
type event struct {
	done   chan struct{}
	happen func()
}

func newEvent() event {
	done := make(chan struct{})
	return event{done, sync.OnceFunc(func() { close(done) })}
}

func (e event) hasHappened() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// currentObject returns the object as it is now.
func (p *pod) currentObject() *corev1.Pod {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.object
}

// updateObject takes the object as it is now: labels may have changed, and the conditions of
// readiness gates.
func (p *pod) updateObject(object *corev1.Pod) {
	p.mu.Lock()
	p.object = object
	p.mu.Unlock()
	p.markChanged()
}

// markChanged records that the status may have changed.
func (p *pod) markChanged() {
	p.changed.Notify()
}

// terminateWithin ends the Pod within a grace period. Another call may only make it shorter: 0 is
// now.
func (p *pod) terminateWithin(grace time.Duration) {
	p.mu.Lock()
	if !p.stopping.hasHappened() {
		p.grace = grace
	}
	p.mu.Unlock()
	p.stopping.happen()
	if grace == 0 {
		p.forced.happen()
	}
}

// abandonPod ends the Pod now, without a word to the API server.
func (p *pod) abandonPod() {
	p.leaving.happen()
	p.terminateWithin(0)
}

// runPod is the Pod's life.
func (p *pod) runPod() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.stopping.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := p.makeSandbox(); err != nil {
		p.log.Error("no sandbox", "error", err)
		p.k.events.emitWarning(p.currentObject(), "FailedCreatePodSandBox", "%v", err)
	} else {
		reporting, stopReporting := context.WithCancel(context.Background())
		var reporter sync.WaitGroup
		reporter.Go(func() { p.reportStatus(reporting) })
		if p.startContainers(ctx) {
			p.refreshVolumes(ctx)
		}
		p.endContainers()
		stopReporting()
		reporter.Wait()
		p.writeStatus() // the last word
	}
	if p.network != nil {
		p.k.network.removePod(p.network)
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.log.Warn("volumes were not removed", "error", err)
	}
	// A Pod that ended by itself stays as an object until it is deleted.
	if p.stopping.hasHappened() && !p.leaving.hasHappened() {
		p.k.deleteObject(p.currentObject())
	}
}

// startContainers brings up volumes, init containers and containers, in this order. It returns
// false if the Pod must end before.
func (p *pod) startContainers(ctx context.Context) bool {
	p.makeContainers()
	if !p.mountVolumes(ctx) {
		return false
	}
	spec := p.currentObject().Spec
	for i := range spec.InitContainers {
		c := p.containerNamed(spec.InitContainers[i].Name)
		go c.runContainer()
		if !c.awaitTurn(ctx) {
			p.setOutcome(corev1.PodFailed)
			return false
		}
	}
	p.mu.Lock()
	p.initialized = true
	p.mu.Unlock()
	for i := range spec.Containers {
		c := p.containerNamed(spec.Containers[i].Name)
		go c.runContainer()
		select { // the next waits for this one's postStart hook
		case <-c.up.done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// makeContainers makes all of them, waiting.
func (p *pod) makeContainers() {
	p.mu.Lock()
	spec := p.object.Spec
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		policy := spec.RestartPolicy
		if policy == corev1.RestartPolicyAlways {
			policy = corev1.RestartPolicyOnFailure
		}
		sidecar := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		if sidecar {
			policy = corev1.RestartPolicyAlways
		}
		p.containers[c.Name] = newContainer(p, c, policy, true)
	}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		p.containers[c.Name] = newContainer(p, c, spec.RestartPolicy, false)
	}
	p.mu.Unlock()
	p.markChanged()
}

func (p *pod) containerNamed(name string) *container {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.containers[name]
}

// mountRetry is how often volumes are tried that cannot be had yet.
const mountRetry = 300 * time.Millisecond

// mountVolumes writes the volumes, and waits for their sources without a limit. It returns false if
// the Pod must end before.
func (p *pod) mountVolumes(ctx context.Context) bool {
	for said := ""; ; {
		err := p.writeVolumes(ctx)
		if err == nil {
			return true
		}
		if said != err.Error() && ctx.Err() == nil {
			said = err.Error()
			p.k.events.emitWarning(p.currentObject(), "FailedMount", "%v", err)
		}
		if !sleepFor(ctx, mountRetry) {
			return false
		}
	}
}

// volumeRefresh is the interval at which volumes are rewritten: changed ConfigMaps, and tokens that
// must be renewed.
const volumeRefresh = 2 * time.Second

// refreshVolumes refreshes the volumes until the Pod is deleted, or its containers have ended.
func (p *pod) refreshVolumes(ctx context.Context) {
	tick := time.NewTicker(volumeRefresh)
	defer tick.Stop()
	all := p.allDone()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := p.writeVolumes(ctx); err != nil && ctx.Err() == nil {
				p.log.Warn("volumes were not refreshed", "error", err)
			}
		case <-all:
			p.setOutcome(p.outcomeOfContainers())
			return
		}
	}
}
