package serving

import (
	"net"
	"strconv"
	"sync"
	"testing"
)

// given are the ports that tests have been told are free, whether they listen there yet or not.
var given sync.Map //nolint:gochecknoglobals // of one test binary

// FreePort gives a TCP port of 127.0.0.1 that nobody listens on now, and that no other test of this process is given: for who must
// know it before it is listened at. Another process may take it meanwhile.
func FreePort(t testing.TB) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // it listens on TCP
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if _, taken := given.LoadOrStore(port, true); !taken {
			return port
		}
	}
}

// FreePorts gives several, each another.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		ports[i] = FreePort(t)
	}
	return ports
}

// FreeAddress gives a [FreePort] as an address, "127.0.0.1:PORT".
func FreeAddress(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(FreePort(t))
}
