package envoy

import (
	"fmt"
	"os"
	"syscall"
)

// Exit is how a process ended: by Signal, or with the exit code Code if Signal is 0.
type Exit struct {
	Code   int
	Signal syscall.Signal
}

// newExit returns how a process ended, which must have ended.
func newExit(state *os.ProcessState) Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Signal: status.Signal()}
	}
	return Exit{Code: state.ExitCode()}
}

// Status returns the exit status that a shell reports: the code, or 128 plus the signal's number.
func (e Exit) Status() int {
	if e.Signal != 0 {
		return 128 + int(e.Signal)
	}
	return e.Code
}

// String returns for logs how a process ended: "exited with status 1" or the signal, for SIGKILL
// with its probable causes.
func (e Exit) String() string {
	switch e.Signal {
	case 0:
		return fmt.Sprintf("exited with status %d", e.Code)
	case syscall.SIGKILL:
		return "was killed by signal 9 (SIGKILL): by a user, or by the kernel's OOM killer"
	default:
		return fmt.Sprintf("was terminated by signal %d (%v)", int(e.Signal), e.Signal)
	}
}

// ExitError is the error of an Envoy that ended without having been asked to.
type ExitError struct{ Exit Exit }

// Error returns a description for logs.
func (e *ExitError) Error() string { return "envoy " + e.Exit.String() }
