package localmesh

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/base/retry"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/component"
)

const (
	// stopGrace is the time between SIGTERM and SIGKILL. An agent drains Envoy meanwhile.
	stopGrace = 8 * time.Second
	// firstBackoff and maxBackoff bound the time before a program that has ended is started again.
	firstBackoff = time.Second
	maxBackoff   = 30 * time.Second
	// steadyTime is how long a program must run for its backoff to begin again.
	steadyTime = time.Minute
	// settleTime is how long mesh up waits for the ports of a program.
	settleTime = 30 * time.Second
)

// The states of a workload.
const (
	StateStarting = "Starting"
	StateReady    = "Ready"
	StateNotReady = "NotReady"
	StateFailed   = "Failed"
)

// workload is a workload of a running mesh.
type workload struct {
	spec WorkloadSpec
	node *netns.Node
	// agent is nil before the sidecar was started, and if there is none.
	agent *netns.Process

	cancel context.CancelFunc
	ended  chan struct{} // closed when everything of it has ended

	mu       sync.Mutex
	state    string
	reason   string
	restarts int
	ready    map[string]bool // programs that accept connections at all ports
	// settled is closed when it was ready, or has failed, for the first time; announced when that
	// has been reported as progress.
	settled, announced chan struct{}
}

// newWorkload returns a workload that has not been started.
func newWorkload(spec WorkloadSpec) *workload {
	return &workload{
		spec:      spec,
		cancel:    func() {},
		state:     StateStarting,
		ended:     make(chan struct{}),
		ready:     map[string]bool{},
		settled:   make(chan struct{}),
		announced: make(chan struct{}),
	}
}

// setState sets the state with a reason. The first state other than Starting also closes w.settled.
// It locks w.mu.
func (w *workload) setState(state, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state, w.reason = state, reason
	if state == StateStarting {
		return
	}
	select {
	case <-w.settled:
	default:
		close(w.settled)
	}
}

// current returns the state, its reason and the number of restarts.
func (w *workload) current() (state, reason string, restarts int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.reason, w.restarts
}

// startNode creates the node of a workload. If it has a sidecar, it writes its WorkloadGroup,
// starts the sidecar and waits until that is ready. It returns an error if this takes longer than
// Sidecars.Start allows. After an error the caller must call stopWorkload, which removes what was
// created.
func (s *Supervisor) startNode(ctx context.Context, w *workload) error {
	addr, err := s.assignWorkloadAddress(w.spec.FullName())
	if err != nil {
		return err
	}
	w.node, err = s.network.AddNode(netns.NodeOptions{
		Name:       w.spec.FullName(),
		Addrs:      addrList(addr),
		Hosts:      controlPlaneHosts(),
		ResolvConf: resolvConf(w.spec.Namespace),
	})
	if err != nil {
		return err
	}
	if w.spec.NoSidecar {
		return nil
	}
	if err := s.config.writeObject(w.spec.groupFile(), w.spec.group()); err != nil {
		return err
	}
	w.agent, err = s.sidecars.Start(ctx, w.node, component.Workload{
		Name: w.spec.Name, Namespace: w.spec.Namespace, ServiceAccount: w.spec.ServiceAccount, Address: addr,
		Labels: w.spec.Labels, Gateway: w.spec.Gateway,
	})
	if err != nil {
		return fmt.Errorf("starting the sidecar: %w", err)
	}
	return nil
}

// runWorkload runs a workload until ctx is canceled, and then stops it. Programs that end are
// started again. If the workload cannot be started, it becomes Failed and is stopped at once. If
// its sidecar ends, it becomes Failed and is not called any longer.
func (s *Supervisor) runWorkload(ctx context.Context, w *workload) {
	defer close(w.ended)
	defer s.stopWorkload(w)
	if err := s.startNode(ctx, w); err != nil {
		w.setState(StateFailed, err.Error())
		return
	}
	if w.spec.Gateway {
		s.setReady(w, "", true)
	}
	var programs sync.WaitGroup
	for _, p := range w.spec.Programs {
		programs.Go(func() { s.keepProgram(ctx, w, p) })
	}
	var sidecar <-chan struct{}
	if w.agent != nil {
		sidecar = w.agent.Done()
	}
	select {
	case <-ctx.Done():
	case <-sidecar:
		s.removeEntry(w)
		w.setState(StateFailed, "the sidecar has ended (log: "+w.agent.LogPath()+")")
		<-ctx.Done()
	}
	programs.Wait()
}

// keepProgram starts a program, and again after a backoff when it has ended, until ctx is canceled.
// The backoff is reset after a program has run for steadyTime. While it is down, the workload is
// not ready. Each new start counts in w.restarts.
func (s *Supervisor) keepProgram(ctx context.Context, w *workload, p Program) {
	backoff := retry.NewBackoff(firstBackoff, maxBackoff)
	for {
		begin := time.Now()
		process, err := w.node.Start(netns.Command{
			Name: p.Name, Path: p.Args[0], Args: p.Args[1:], Dir: p.Dir,
			Env: append([]string{"HOSTNAME=" + w.spec.Name}, p.Env...),
		})
		if err == nil {
			err = s.watchProgram(ctx, w, p, process)
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(begin) > steadyTime {
			backoff.Reset()
		}
		pause := backoff.NextBackOff()
		s.setReady(w, p.Name, false)
		w.setState(StateNotReady, fmt.Sprintf("%v; it is started again in %s", err, pause))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		w.mu.Lock()
		w.restarts++
		w.mu.Unlock()
	}
}

// watchProgram waits until a process accepts connections at the ports of its program, and then sets
// it ready. When the process has ended, it returns an error with its status. If ctx is canceled
// first, it removes the WorkloadEntry, ends the process, and returns the error of that, nil if the
// process ended in time.
func (s *Supervisor) watchProgram(ctx context.Context, w *workload, p Program, process *netns.Process) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if s.awaitPorts(watching, w, p, process) == nil {
			s.setReady(w, p.Name, true)
		}
	}()
	select {
	case <-process.Done():
		return fmt.Errorf("%s has ended with status %d (log: %s)", p.Name, process.Status(), process.LogPath())
	case <-ctx.Done():
		s.removeEntry(w)
		return process.Stop(stopGrace)
	}
}

// awaitPorts waits until a program accepts connections at all its ports. If a port does not after
// settleTime, the workload becomes NotReady, and the wait continues. It returns an error if the
// process or ctx ends first.
func (s *Supervisor) awaitPorts(ctx context.Context, w *workload, p Program, process *netns.Process) error {
	for _, port := range p.Ports {
		timer := time.AfterFunc(settleTime, func() {
			w.setState(StateNotReady, fmt.Sprintf("%s does not accept connections at port %d (log: %s)", p.Name, port,
				process.LogPath()))
		})
		err := process.AwaitPort(ctx, fmt.Sprintf("127.0.0.1:%d", port))
		timer.Stop()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// setReady records whether a program is ready. If all programs are, it writes the WorkloadEntry and
// sets the state Ready, or Failed if that cannot be written. Otherwise it removes the
// WorkloadEntry, and the state stays.
func (s *Supervisor) setReady(w *workload, program string, ready bool) {
	w.mu.Lock()
	w.ready[program] = ready
	all := true
	for _, p := range w.spec.Programs {
		all = all && w.ready[p.Name]
	}
	w.mu.Unlock()
	if !all {
		s.removeEntry(w)
		return
	}
	if err := s.config.writeObject(w.spec.entryFile(), w.spec.entry(w.node.Addr())); err != nil {
		w.setState(StateFailed, err.Error())
		return
	}
	w.setState(StateReady, "")
}

// removeEntry removes the WorkloadEntry, so that the workload is not called any longer. An error is
// logged.
func (s *Supervisor) removeEntry(w *workload) {
	if err := s.config.remove(w.spec.entryFile()); err != nil {
		s.log.Error("removing a WorkloadEntry failed", "workload", w.spec.FullName(), "error", err)
	}
}

// stopWorkload removes the WorkloadEntry and WorkloadGroup of a workload, and ends its sidecar, its
// programs and its node, as far as they exist. Errors are logged.
func (s *Supervisor) stopWorkload(w *workload) {
	s.removeEntry(w)
	errs := []error{s.config.remove(w.spec.groupFile())}
	if w.agent != nil {
		errs = append(errs, w.agent.Stop(stopGrace))
	}
	if w.node != nil {
		errs = append(errs, w.node.Close())
	}
	if err := errors.Join(errs...); err != nil {
		s.log.Error("stopping a workload failed", "workload", w.spec.FullName(), "error", err)
	}
}

// logDirectory returns the directory of the logs of a workload.
func (s *Supervisor) logDirectory(name string) string {
	return filepath.Join(s.options.Dir, nodesDir, name)
}

// resolvConf returns the /etc/resolv.conf of the programs in a namespace, like that of a pod.
func resolvConf(namespace string) string {
	return fmt.Sprintf("search %s.svc.%s svc.%s %s\nnameserver %s\noptions ndots:5\n", namespace, domain, domain,
		domain, nameserver)
}
