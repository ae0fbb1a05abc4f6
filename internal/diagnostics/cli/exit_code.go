package cli

import (
	"errors"
	"fmt"
	"strings"
)

// Exit codes of pilotctl.
const (
	exitFailure = 1
	// exitDifference and exitDiffFailure are for diff and compare, as of kubectl diff.
	exitDifference  = 1
	exitDiffFailure = 2
	// exitTimeout and exitRefused are for *WaitError.
	exitTimeout = 3
	exitRefused = 4
	// exitCheckFailed is for *CheckError and *TestError.
	exitCheckFailed = 5
	// exitProblems is the exit code of istioctl analyze for findings; also that of check-migration.
	exitProblems = 79
	// exitRunFailed and exitNotFound are for programs that run and mesh exec could not run, as of
	// container engines.
	exitRunFailed = 125
	exitNotFound  = 127
)

// ProblemsError is the error of a command that worked and found mistakes in configuration objects.
type ProblemsError struct {
	// Errors is the number of Problems of the severity error, and Warnings that of the others, or 0 if
	// warnings do not make the command fail.
	Errors, Warnings int
}

// Error returns the number of errors and warnings in configuration objects, such as "1 error and 2
// warnings in configuration objects". Numbers of 0 are left out.
func (e *ProblemsError) Error() string {
	var parts []string
	for _, x := range []struct {
		n    int
		noun string
	}{{e.Errors, "error"}, {e.Warnings, "warning"}} {
		switch x.n {
		case 0:
		case 1:
			parts = append(parts, "1 "+x.noun)
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", x.n, x.noun))
		}
	}
	return strings.Join(parts, " and ") + " in configuration objects"
}

// StatusError is the end of a program that pilotctl ran, with an exit code other than 0.
type StatusError struct {
	Code int
	// err is the reason why the program could not be run. It is nil if it ran.
	err error
}

// Error returns the reason, or the exit code of the program. The error wins if there is one.
func (e *StatusError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// HasRun reports whether the program ran. Its end is then no failure of pilotctl.
func (e *StatusError) HasRun() bool { return e.err == nil }

// runFailed returns the error of a program that could not be run.
func runFailed(err error) error { return &StatusError{Code: exitRunFailed, err: err} }

// ExitCode returns the exit code of pilotctl for the error of a command. It is 0 without an error,
// 79 for a *ProblemsError or *AnalysisError, 3 for a *WaitError that timed out, and 4 if the
// version was refused. It is 5 for a *CheckError or *TestError, 2 for a failed diff or compare,
// that of a *StatusError, and otherwise 1, also for a *DifferenceError.
func ExitCode(err error) int {
	var wait *WaitError
	var status *StatusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return status.Code
	case errors.As(err, &wait) && wait.Refused:
		return exitRefused
	case errors.As(err, &wait):
		return exitTimeout
	case errors.As(err, new(*CheckError)), errors.As(err, new(*TestError)):
		return exitCheckFailed
	case errors.As(err, new(*DifferenceError)):
		return exitDifference
	case errors.As(err, new(*diffError)):
		return exitDiffFailure
	case errors.As(err, new(*ProblemsError)), errors.As(err, new(*AnalysisError)):
		return exitProblems
	default:
		return exitFailure
	}
}
