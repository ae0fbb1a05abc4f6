package envoy

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputPatience is how long output is waited for that is copied, once the process has ended.
const outputPatience = time.Second

// Command is how to start a process. Of its streams *os.File are inherited where it can open them by name.
type Command struct {
	Path string
	Args []string
	Env  []string
	// Dir is the working directory, "" for the agent's own.
	Dir            string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Process is a running child process. It does not outlive this one.
type Process struct {
	command *exec.Cmd
	exited  chan struct{}
	exit    Exit // valid once exited is closed
}

// Start starts a process.
func Start(c Command) (*Process, error) {
	command := exec.Command(c.Path, c.Args...)
	command.Env, command.Dir = c.Env, c.Dir
	command.Stdin, command.Stdout, command.Stderr = c.Stdin, openable(c.Stdout), openable(c.Stderr)
	command.WaitDelay = outputPatience
	command.SysProcAttr = &syscall.SysProcAttr{
		// Even kill -9 of the agent must not leave an Envoy that nobody watches or drains.
		Pdeathsig: syscall.SIGKILL,
		// Ctrl-C signals the terminal's whole process group. Envoy would end at once, and nothing could be drained.
		Setpgid: true,
	}
	p := &Process{command: command, exited: make(chan struct{})}
	started := make(chan error)
	go p.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start envoy %q: %w", c.Path, err)
	}
	return p, nil
}

// live starts the process and waits for its end, on one thread that it keeps: the parent that Pdeathsig speaks of is
// the thread that started the process, not the whole program (prctl(2)).
func (p *Process) live(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	// The error repeats what ProcessState says, or is about copying the output, which is no reason to end.
	_ = p.command.Wait()
	p.exit = exitOf(p.command.ProcessState)
	close(p.exited)
}

// PID is the process's id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit says how the process ended. It waits for the end.
func (p *Process) Exit() Exit {
	<-p.exited
	return p.exit
}

// Stop ends the process: it asks first, and kills it if it is still there when patience comes.
func (p *Process) Stop(patience <-chan time.Time) Exit {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-patience:
		p.signal(syscall.SIGKILL)
	}
	return p.Exit()
}

// signal fails only if the process has ended, and then there is nothing to signal.
func (p *Process) signal(s os.Signal) { _ = p.command.Process.Signal(s) }
