package envoy

import (
	"fmt"
	"os"
	"syscall"
)

// Exit is how a process ended: by itself with a code, or by a signal.
type Exit struct {
	Code   int
	Signal syscall.Signal
}

func exitOf(state *os.ProcessState) Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Signal: status.Signal()}
	}
	return Exit{Code: state.ExitCode()}
}

// Status is the exit status that a shell reports: the code, or 128 and the signal's number.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// String says it for people.
func (e Exit) String() string {
	switch e.Signal {
	case 0:
		return fmt.Sprintf("exited with status %d", e.Code)
	case syscall.SIGKILL:
		return "was killed by signal 9 (SIGKILL): by a person, or by the system for want of memory"
	default:
		return fmt.Sprintf("was ended by signal %d (%v)", int(e.Signal), e.Signal)
	}
}

// ExitError is the error of an Envoy that ended although nobody had asked it to.
type ExitError struct{ Exit Exit }

func (e *ExitError) Error() string { return "envoy " + e.Exit.String() }
