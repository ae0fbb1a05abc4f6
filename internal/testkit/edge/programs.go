package edge

import (
	"net"
	"sync"
	"testing"

	"github.com/meshpilot/meshpilot/internal/testkit/program"
)

// programs gives a folder with the programs under test.
func programs(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := program.Into(t.Context(), dir, "cmd/pilot-discovery", "cmd/pilot-agent"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// given are the ports that tests have been told are free, whether they listen there yet or not.
var given sync.Map //nolint:gochecknoglobals // of one test binary

// FreePorts gives ports that nobody listens on now, and that no other test is given.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	var ports []int
	for len(ports) < n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			ports = append(ports, port)
		}
	}
	return ports
}
