// Package longtest skips tests that take a minute: `go test ./...` leaves them out, `make test`
// runs them.
package longtest

import (
	"os"
	"testing"
)

// Variable is the environment variable that enables such tests, by the value "true". They also run
// where CI is "true".
const Variable = "MESHPILOT_LONG"

// Test skips a test unless long tests are enabled.
func Test(t testing.TB) {
	t.Helper()
	if !isEnabled() {
		t.Skip("it takes a minute: `make test` runs it, and so does " + Variable + "=true")
	}
}

// Rounds returns the number of repetitions of a randomized test: few, or many if long tests are
// enabled.
func Rounds(few, many int) int {
	if isEnabled() {
		return many
	}
	return few
}

func isEnabled() bool { return os.Getenv(Variable) == "true" || os.Getenv("CI") == "true" }
