package cli

import (
	"errors"
	"fmt"
)

// Exit codes of pilotctl.
const (
	exitFailure = 1
	// exitDifference and exitDiffFailure are for diff, as of kubectl diff.
	exitDifference  = 1
	exitDiffFailure = 2
	// exitTimeout and exitRefused are for *WaitError.
	exitTimeout = 3
	exitRefused = 4
	// exitCheckFailed is for *CheckError and *TestError.
	exitCheckFailed = 5
	// exitProblems is the exit code of istioctl analyze for findings; also that of check-migration.
	exitProblems = 79
)

// ProblemsError is the error of a command that worked and found invalid configuration objects.
type ProblemsError struct {
	// Errors is the number of Problems of the severity error.
	Errors int
}

// Error returns the number of errors in configuration objects.
func (e *ProblemsError) Error() string {
	if e.Errors == 1 {
		return "1 error in configuration objects"
	}
	return fmt.Sprintf("%d errors in configuration objects", e.Errors)
}

// ExitCode returns the exit code of pilotctl for the error of a command: 0 without an error, 79 for
// a *ProblemsError or *AnalysisError, 3 or 4 for a *WaitError, 5 for a *CheckError or *TestError, 2 for a diff that
// failed, and otherwise 1.
func ExitCode(err error) int {
	var wait *WaitError
	switch {
	case err == nil:
		return 0
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
