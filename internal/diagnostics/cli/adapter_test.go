package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAdapterTestFails checks the output, the exit code and the errors of flags with an address where
// nothing listens.
func TestAdapterTestFails(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(garbage, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		output string
		err    string
		code   int
	}{
		{[]string{"127.0.0.1:1"}, "× requests for ServiceEntries are answered\n", "1 check failed", exitCheckFailed},
		{[]string{"127.0.0.1:1", "-o", "junit"}, `<testsuite name="pilotctl adapter test"`, "1 check failed", exitCheckFailed},
		{[]string{"127.0.0.1"}, "", "the address of the adapter", exitFailure},
		{[]string{"127.0.0.1:1", "-o", "x"}, "", "--output", exitFailure},
		{[]string{"127.0.0.1:1", "--root-cert", garbage}, "", "the roots (--root-cert) have no certificate", exitFailure},
	} {
		var out strings.Builder
		command := New()
		command.SetOut(&out)
		command.SetArgs(append([]string{"adapter", "test"}, c.args...))
		err := command.Execute()
		if err == nil || !strings.Contains(err.Error(), c.err) || ExitCode(err) != c.code || !strings.Contains(out.String(), c.output) {
			t.Errorf("%v: error %v, output %s", c.args, err, out.String())
		}
		if failed := new(CheckError); errors.As(err, &failed) && failed.Failed != 1 {
			t.Errorf("%v: %d failed", c.args, failed.Failed)
		}
	}
}
