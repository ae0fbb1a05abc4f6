package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// process is one run of a container.
type process struct {
	container *container
	cmd       *exec.Cmd
	spec      *initSpec
	began     metav1.Time
	exited    chan struct{}
	preparing sync.Once
	killing   sync.Once
}

// errImage means that the image is not in the map.
var errImage = errors.New("pull image")

// waitingFor is the reason why a container could not be started.
func waitingFor(err error) corev1.ContainerState {
	reason := "CreateContainerConfigError"
	if errors.Is(err, errImage) {
		reason = "ErrImagePull"
	}
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: err.Error()}}
}

// runOnce runs the container to its end, and returns its exit code. An error means that it could
// not be started.
func (c *container) runOnce(ctx context.Context) (int, error) {
	spec, err := c.prepareSpec(ctx)
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(spec.Layer)
	p, err := c.startProcess(spec)
	if err != nil {
		return 0, err
	}
	c.setState(func() {
		c.run = p
		c.started = c.spec.StartupProbe == nil
		c.ready = c.started && c.spec.ReadinessProbe == nil
		c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: p.began}}
	})
	alive, cancel := context.WithCancel(context.Background())
	var attendants sync.WaitGroup
	attendants.Go(func() {
		p.postStart(alive)
		c.up.happen()
		p.runProbes(alive)
	})
	attendants.Go(func() {
		select {
		case <-c.ending.done:
			c.mu.Lock()
			grace := c.grace
			c.mu.Unlock()
			p.killProcess(grace, nil)
		case <-p.exited:
		}
	})
	<-p.exited
	cancel()
	attendants.Wait()
	return p.recordEnd(), nil
}

// startProcess starts the first process of the container, which becomes what spec says.
func (c *container) startProcess(spec *initSpec) (*process, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(c.pod.dir, c.spec.Name+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	log, err := c.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	became, becoming, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer became.Close()
	cmd := exec.Command("/proc/self/exe", InitCommand, file)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{becoming} // becomingFile
	if ns := c.pod.network.namespace; ns != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, ns) // networkFile
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	err = c.pod.k.thread.Start(cmd)
	becoming.Close()
	if err != nil {
		return nil, fmt.Errorf("start the container's first process: %w", err)
	}
	// It is no container before it has closed the other end, be it by its own end: who looked
	// inside would see this machine.
	_, _ = io.Copy(io.Discard, became)
	p := &process{container: c, cmd: cmd, spec: spec, began: metav1.Now(), exited: make(chan struct{})}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // how it ended is read by account
	}()
	return p, nil
}

// recordEnd records how the run ended, and returns its exit code: 128+n when signal n ended it.
func (p *process) recordEnd() int {
	c := p.container
	code, signal := exitCodeOf(p.cmd.ProcessState)
	end := &corev1.ContainerStateTerminated{
		ExitCode:   int32(code),
		Signal:     int32(signal),
		Reason:     "Completed",
		StartedAt:  p.began,
		FinishedAt: metav1.Now(),
	}
	if end.ExitCode != 0 {
		end.Reason = "Error"
	}
	c.setState(func() {
		c.run, c.started, c.ready = nil, false, false
		c.state = corev1.ContainerState{Terminated: end}
		c.last = c.state
	})
	return code
}

// exitCodeOf returns the exit code of an ended process as container runtimes report it, 128+n if
// signal n ended it, and that signal, or 0.
func exitCodeOf(state *os.ProcessState) (code int, signal syscall.Signal) {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), ws.Signal()
	}
	return state.ExitCode(), 0
}

// postStart runs the hook, and kills the container when that fails.
func (p *process) postStart(ctx context.Context) {
	l := p.container.spec.Lifecycle
	if l == nil || l.PostStart == nil {
		return
	}
	if err := p.runHook(ctx, l.PostStart); err != nil && ctx.Err() == nil {
		p.container.pod.k.events.emitWarning(
			p.container.pod.currentObject(),
			"FailedPostStartHook",
			"container %s: %v",
			p.container.spec.Name,
			err,
		)
		p.killProcess(p.ownGrace(nil), err)
	}
}

// runHook runs a lifecycle hook.
func (p *process) runHook(ctx context.Context, h *corev1.LifecycleHandler) error {
	if h.Sleep != nil {
		sleepFor(ctx, time.Duration(h.Sleep.Seconds)*time.Second)
		return nil
	}
	return p.runCheck(ctx, corev1.ProbeHandler{Exec: h.Exec, HTTPGet: h.HTTPGet, TCPSocket: h.TCPSocket})
}

// prepareEnd runs the preStop hook, once; later callers wait until it is over.
func (p *process) prepareEnd(ctx context.Context) {
	p.preparing.Do(func() {
		l := p.container.spec.Lifecycle
		if l == nil || l.PreStop == nil || ctx.Err() != nil {
			return
		}
		if err := p.runHook(ctx, l.PreStop); err != nil {
			p.container.pod.log.Info("a preStop hook failed", "container", p.container.spec.Name, "error", err)
		}
	})
}

// ownGrace is the grace period of a container that is killed alone, and not with its Pod.
func (p *process) ownGrace(probe *corev1.Probe) time.Duration {
	pod := p.container.pod
	seconds := pod.currentObject().Spec.TerminationGracePeriodSeconds
	if probe != nil && probe.TerminationGracePeriodSeconds != nil {
		seconds = probe.TerminationGracePeriodSeconds
	}
	grace := 30 * time.Second
	if seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	if m := pod.k.MaxGrace; m > 0 {
		grace = min(grace, m)
	}
	return grace
}

// killProcess ends the run: the preStop hook, SIGTERM, and SIGKILL when the grace period has passed
// or the Pod must end at once. Of several kills only the first has an effect, except a request to
// end at once.
func (p *process) killProcess(grace time.Duration, why error) {
	p.killing.Do(func() {
		if why != nil {
			p.container.pod.k.events.emitWarning(
				p.container.pod.currentObject(),
				"Killing",
				"container %s: %v",
				p.container.spec.Name,
				why,
			)
		}
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		go func() {
			select {
			case <-p.container.pod.forced.done:
				cancel()
			case <-p.exited:
				cancel()
			case <-ctx.Done():
			}
		}()
		p.prepareEnd(ctx)
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-p.exited:
		case <-ctx.Done():
			// The first process of its PID namespace: when it ends, all processes in the namespace
			// end.
			_ = p.cmd.Process.Kill()
		}
	})
}

// commandInside is a command inside of the container, with its environment and as its user.
func (p *process) commandInside(ctx context.Context, args []string) *exec.Cmd {
	into := []string{"-t", strconv.Itoa(p.cmd.Process.Pid), "-m", "-u", "-i", "-n", "-p", "-r", "-w",
		"-S", strconv.Itoa(p.spec.UID), "-G", strconv.Itoa(p.spec.GID), "--"}
	cmd := exec.CommandContext(ctx, "nsenter", append(into, args...)...)
	cmd.Env = p.spec.Env
	// A process that the command left behind may keep the output open.
	cmd.WaitDelay = time.Second
	return cmd
}
