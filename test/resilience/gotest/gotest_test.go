package gotest

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// module returns the root of the module.
func module(t *testing.T) string {
	t.Helper()
	root, err := program.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// run runs the go command in the module at a low priority, and returns its output and whether it succeeded. Tests that it runs are of
// the everyday size unless allTests is set.
func run(t *testing.T, root string, allTests bool, args ...string) (output string, succeeded bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "nice", append([]string{"-n", "10", "go"}, args...)...)
	cmd.Dir = root
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == longtest.Variable || name == scorecard.SizeVariable || name == scorecard.PeerVariable || name == "CI"
	})
	if allTests {
		cmd.Env = append(cmd.Env, longtest.Variable+"=true")
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), err == nil
}

// tail returns the last lines of an output.
func tail(output string, lines int) string {
	list := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(list[max(0, len(list)-lines):], "\n")
}
