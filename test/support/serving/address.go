package serving

import (
	"strconv"
	"testing"
)

// FreePort returns a port as [ReservePort] does.
func FreePort(t testing.TB) int {
	t.Helper()
	return FreePorts(t, 1)[0]
}

// FreePorts returns n different ports, each as [ReservePort] does.
func FreePorts(t testing.TB, n int) []int {
	t.Helper()
	ports, err := ReservePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// FreeAddress returns a [FreePort] as an address, "127.0.0.1:PORT".
func FreeAddress(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(FreePort(t))
}
