package envoy

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// outputWaitDelay bounds the wait for copied output after the process has ended.
const outputWaitDelay = time.Second

// Command describes how to start a process. A stream that is an *os.File is inherited if the
// process can open it by name and User is nil.
type Command struct {
	Path string
	Args []string
	Env  []string
	// Dir is the working directory. If empty, it is the agent's.
	Dir string
	// User is whom the process runs as. If nil, it is the agent's user.
	User           *User
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Process is a running child process. It is killed when the agent ends.
type Process struct {
	command *exec.Cmd
	outputs []*outputPipe
	exited  chan struct{}
	exit    Exit // valid once exited is closed
}

// Start starts a process in a process group of its own. The process, but not its group, is killed
// if the agent dies. It is not bound to a context; see Process.Stop. Start returns an error if the
// process cannot be started.
func Start(c Command) (*Process, error) {
	command := exec.Command(c.Path, c.Args...)
	command.Env, command.Dir = c.Env, c.Dir
	command.Stdin, command.WaitDelay = c.Stdin, outputWaitDelay
	command.SysProcAttr = &syscall.SysProcAttr{
		// Even kill -9 of the agent must not leave an Envoy that is neither supervised nor drained.
		Pdeathsig: syscall.SIGKILL,
		// Ctrl-C signals the terminal's whole process group. Envoy would exit at once without
		// draining.
		Setpgid:    true,
		Credential: c.User.credential(),
	}
	p := &Process{command: command, exited: make(chan struct{})}
	var errOut, errErr error
	command.Stdout, errOut = p.openOutput(c.User, c.Stdout)
	command.Stderr, errErr = p.openOutput(c.User, c.Stderr)
	if err := errors.Join(errOut, errErr); err != nil {
		p.closeWriters()
		p.finishOutput()
		return nil, fmt.Errorf("start envoy %q: %w", c.Path, err)
	}
	started := make(chan error)
	go p.runAndWait(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start envoy %q: %w", c.Path, err)
	}
	return p, nil
}

// openOutput returns the output stream of the command for a stream of the agent. With a User it
// adds a pipe to p.outputs.
func (p *Process) openOutput(u *User, stream io.Writer) (io.Writer, error) {
	if u == nil || stream == nil {
		return inheritable(stream), nil
	}
	pipe, err := newOutputPipe(u, stream)
	if err != nil {
		return nil, err
	}
	p.outputs = append(p.outputs, pipe)
	return pipe.write, nil
}

// closeWriters closes the agent's ends of the output pipes.
func (p *Process) closeWriters() {
	for _, o := range p.outputs {
		o.closeWriter()
	}
}

// finishOutput waits for copied output.
func (p *Process) finishOutput() {
	for _, o := range p.outputs {
		o.finish()
	}
}

// runAndWait starts the process, sends the result to started, waits for its end, sets p.exit and
// closes p.exited. If the start fails, it only sends the error. It does both on one locked OS
// thread, because Pdeathsig applies to the end of the thread that started the process (prctl(2)).
func (p *Process) runAndWait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.command.Start()
	p.closeWriters()
	started <- err
	if err != nil {
		p.finishOutput()
		return
	}
	// The error repeats ProcessState, or is about copying output, which does not matter.
	_ = p.command.Wait()
	p.finishOutput()
	p.exit = newExit(p.command.ProcessState)
	close(p.exited)
}

// PID returns the process ID.
func (p *Process) PID() int { return p.command.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Exit waits for the end of the process and returns how it ended. It may be called more than once.
func (p *Process) Exit() Exit {
	<-p.exited
	return p.exit
}

// Stop sends SIGTERM, and SIGKILL if the process still runs when patience receives, never if that
// is nil. It waits for the end of the process and returns how it ended.
func (p *Process) Stop(patience <-chan time.Time) Exit {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-patience:
		p.signal(syscall.SIGKILL)
	}
	return p.Exit()
}

// signal sends a signal. It fails only if the process has ended, which is ignored.
func (p *Process) signal(s os.Signal) { _ = p.command.Process.Signal(s) }
