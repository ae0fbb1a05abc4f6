package process

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Process is a program that a test can start again after it was killed. It is for the goroutine of the
// test.
type Process struct {
	t       testing.TB
	name    string
	log     serving.Log
	command *exec.Cmd // nil while it does not run
	paused  bool
}

// New returns a Process that does not run yet. It is killed when the test ends. If the test has failed,
// the output of all its runs is logged under the name.
func New(t testing.TB, name string) *Process {
	t.Helper()
	p := &Process{t: t, name: name}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", name, p.log.String())
		}
	})
	return p
}

// Start runs the command. It returns false and does nothing if the process runs already.
func (p *Process) Start(command *exec.Cmd) (started bool) {
	p.t.Helper()
	if p.command != nil {
		return false
	}
	command.Stdout, command.Stderr = &p.log, &p.log
	if err := command.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	p.command = command
	return true
}

// Kill ends the process without a chance to notify its clients. It does nothing if it does not run.
func (p *Process) Kill() {
	if p.command == nil {
		return
	}
	_ = p.command.Process.Kill() // it may have ended
	p.await()
}

// Stop ends the process with SIGTERM, as an upgrade does, and waits for its end. It does nothing if it
// does not run.
func (p *Process) Stop() {
	p.t.Helper()
	if p.command == nil {
		return
	}
	p.signal(syscall.SIGTERM)
	p.await()
}

// await waits until the process has ended. Its status does not matter.
func (p *Process) await() {
	_ = p.command.Wait()
	p.command, p.paused = nil, false
}

// Pause stops the process without ending it: its connections stay open and nothing answers.
func (p *Process) Pause() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	p.paused = true
}

// Resume continues a paused process.
func (p *Process) Resume() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
	p.paused = false
}

// Runs reports whether the process was started, was not ended by the test, and is not paused.
func (p *Process) Runs() bool { return p.command != nil && !p.paused }

// RequireStopped fails the test if the process runs or is paused.
func (p *Process) RequireStopped() {
	p.t.Helper()
	if p.command != nil {
		p.t.Fatalf("%s runs", p.name)
	}
}

func (p *Process) signal(signal syscall.Signal) {
	p.t.Helper()
	if p.command == nil {
		p.t.Fatalf("%s does not run", p.name)
	}
	if err := p.command.Process.Signal(signal); err != nil {
		p.t.Fatalf("signal %s: %v", p.name, err)
	}
}
