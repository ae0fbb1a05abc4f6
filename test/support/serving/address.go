package serving

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// given are the ports that tests have received as free, whether they listen there yet or not.
var given sync.Map //nolint:gochecknoglobals // of one test binary

// Ports of tests are below the range that Linux uses for clients (net.ipv4.ip_local_port_range,
// from 32768): a connection of another test that has a port of that range at any address keeps a
// server from listening on it at all addresses.
const firstPort, endOfPorts = 20_000, 32_000

// FreePort returns a TCP port that no server listens on at any address, and that no other test of
// this process is given: for a server whose port must be known before it listens. Another process
// may bind it before that.
func FreePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := firstPort + rand.IntN(endOfPorts-firstPort)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			continue // in use, and for this process that will do
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatalf("no port from %d to %d is free", firstPort, endOfPorts-1)
	return 0
}

// FreePorts returns several, each another.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		ports[i] = FreePort(t)
	}
	return ports
}

// FreeAddress returns a [FreePort] as an address, "127.0.0.1:PORT".
func FreeAddress(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(FreePort(t))
}
