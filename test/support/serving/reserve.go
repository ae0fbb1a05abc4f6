package serving

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strconv"
	"sync"
	"syscall"
)

// Ports of tests are below the range that Linux uses for clients (net.ipv4.ip_local_port_range,
// from 32768): a connection of another test that has a port of that range at any address keeps a
// server from listening on it at all addresses.
const firstPort, endOfPorts = 20_000, 32_000

// reserved are the reservations of this process: by port, what keeps other processes from reserving
// it. They end with the process.
var reserved sync.Map //nolint:gochecknoglobals // of one process

// ReservePort returns a TCP port that no server listens on at any address, for a server whose port
// must be known before it listens. No other call of this function in this network namespace, in this
// process or in another one, returns the port before this process ends. Programs that choose ports in
// another way may still listen on it.
func ReservePort() (int, error) {
	for range 1000 {
		port := firstPort + rand.IntN(endOfPorts-firstPort)
		switch ok, err := reserve(port); {
		case err != nil:
			return 0, err
		case ok && isFree(port):
			return port, nil
		}
	}
	return 0, fmt.Errorf("no TCP port from %d to %d is free", firstPort, endOfPorts-1)
}

// ReservePorts returns n different ports, each as [ReservePort] does.
func ReservePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		port, err := ReservePort()
		if err != nil {
			return nil, err
		}
		ports[i] = port
	}
	return ports, nil
}

// ReserveAddress returns a [ReservePort] as an address, "127.0.0.1:PORT".
func ReserveAddress() (string, error) {
	port, err := ReservePort()
	return "127.0.0.1:" + strconv.Itoa(port), err
}

// reserve reports whether it has reserved the port: no other process of the network namespace nor a
// call before has. Across processes, an abstract Unix socket of the port's name is the reservation:
// Linux keeps one of a name in each network namespace, and removes it when the process ends. On other
// systems ports are reserved within this process only.
func reserve(port int) (bool, error) {
	if runtime.GOOS != "linux" {
		_, taken := reserved.LoadOrStore(port, true)
		return !taken, nil
	}
	name := &net.UnixAddr{Net: "unixgram", Name: "@meshpilot/test/port/" + strconv.Itoa(port)}
	socket, err := net.ListenUnixgram("unixgram", name)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reserve port %d: %w", port, err)
	}
	reserved.Store(name, socket)
	return true, nil
}

// isFree reports whether a server can listen on the port at all addresses. No child process is
// started while it listens, because that would keep the port until it has executed its program.
func isFree(port int) bool {
	if runtime.GOOS == "linux" { // elsewhere net.Listen takes the lock
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
	return err == nil && l.Close() == nil
}
