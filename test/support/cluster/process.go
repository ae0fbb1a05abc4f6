package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/meshpilot/meshpilot/test/support/osthread"
)

// process is one program of a cluster.
type process struct {
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

// startProcess runs a program with its output appended to a log file, until the thread ends.
func startProcess(on *osthread.Thread, name, path, logs string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(logs, name+".log"), done: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A session of its own: an interrupt at the terminal is for the program that then ends it in
	// order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := on.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // failure reports how it ended
	}()
	return p, nil
}

// isRunning reports whether it has not ended.
func (p *process) isRunning() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// exitError returns how it ended and its last output; nil while it runs.
func (p *process) exitError() error {
	if p.isRunning() {
		return nil
	}
	text, err := os.ReadFile(p.log)
	return errors.Join(fmt.Errorf("%s ended (%s):\n%s", p.name, p.cmd.ProcessState, lastLines(text, 20)), err)
}

// stopWithin sends SIGTERM, and kills the process if it has not ended in time.
func (p *process) stopWithin(grace time.Duration) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(grace):
		p.killNow()
	}
}

// killNow ends it at once.
func (p *process) killNow() {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// pauseProcess sends SIGSTOP, and returns when all threads are stopped: they stop one after the
// other.
func (p *process) pauseProcess() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("pause %s: %w", p.name, err)
	}
	var err error
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WSTOPPED, nil)
	}
	if err != nil {
		return fmt.Errorf("wait until %s is stopped: %w", p.name, err)
	}
	return nil
}

// awaitCondition polls until a condition holds or one of the processes that it depends on has
// ended.
func awaitCondition(
	ctx context.Context,
	what string,
	processes []*process,
	holds func(ctx context.Context) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		for _, p := range processes {
			if failure := p.exitError(); failure != nil {
				return fmt.Errorf("wait for %s: %w", what, failure)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last: %w)", what, ctx.Err(), err)
		case <-time.After(pollInterval):
		}
	}
}

// lastLines returns the last n lines of a log.
func lastLines(text []byte, n int) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
