package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Process is a running control plane.
type Process struct {
	Settings
	// Started is how long it took to open its xDS port, StartCPU the CPU time until then.
	Started, StartCPU time.Duration

	cmd    *exec.Cmd
	exited chan struct{}
	peak   peak
}

const (
	startTime = 5 * time.Minute
	stopTime  = 15 * time.Second
	pollTime  = 5 * time.Millisecond
)

// Start runs a control plane, and returns when its xDS port is open. log takes its output. Stop
// must be called in the end.
func (p Plane) Start(ctx context.Context, s Settings, log *os.File) (*Process, error) {
	address := s.XDS
	if s.Keys != nil {
		address = s.SecureXDS
	}
	if acceptsConnections(address) {
		return nil, fmt.Errorf("start %s: another process listens on %s already", p.Kind, address)
	}
	cmd, err := p.command(s)
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	x := &Process{Settings: s, cmd: cmd, exited: make(chan struct{})}
	if err := x.startCommand(); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Binary, err)
	}
	if err := x.awaitPort(ctx, address); err != nil {
		x.Stop(syscall.SIGKILL)
		return nil, fmt.Errorf("start %s: %w", p.Binary, err)
	}
	x.Started, x.StartCPU = time.Since(began), x.CPU()
	go x.peak.watchProcess(x.PID(), x.exited)
	return x, nil
}

// startCommand starts the process from a thread that stays until the process ends: the kernel sends the signal
// Pdeathsig when the thread ends that has started it, which package netns lets threads do.
func (x *Process) startCommand() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := x.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		_ = x.cmd.Wait() // its status is of no interest: it is seen when it ends too early
		close(x.exited)
	}()
	return <-started
}

// awaitPort waits until the address takes connections.
func (x *Process) awaitPort(ctx context.Context, address string) error {
	limit := time.After(startTime)
	for !acceptsConnections(address) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-x.exited:
			return errors.New("it ended")
		case <-limit:
			return fmt.Errorf("%s was not opened within %v", address, startTime)
		case <-time.After(pollTime):
		}
	}
	return nil
}

func acceptsConnections(address string) bool {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// PID is the process id.
func (x *Process) PID() int { return x.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (x *Process) Exited() <-chan struct{} { return x.exited }

// Alive reports whether it still runs.
func (x *Process) Alive() bool {
	select {
	case <-x.exited:
		return false
	default:
		return true
	}
}

// Stop sends the signal, and kills the process if it has not ended in time.
func (x *Process) Stop(s syscall.Signal) {
	_ = x.cmd.Process.Signal(s) // it may have ended
	select {
	case <-x.exited:
	case <-time.After(stopTime):
		_ = x.cmd.Process.Kill()
		<-x.exited
	}
}
