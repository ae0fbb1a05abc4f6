package gatewayenv

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/program"
)

// programFolder returns a folder with the programs under test.
func programFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := program.Into(t.Context(), dir, "cmd/pilot-discovery", "cmd/pilot-agent"); err != nil {
		t.Fatal(err)
	}
	return dir
}
