package hostileclients

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// lowestPort and highestPort are the local ports of attackers and honest clients. They are below
// the range from which servers of tests get theirs: thousands of connections must not take the port
// of another test.
const lowestPort, highestPort = 10_000, 32_000

// dialFrom connects from a local address.
func dialFrom(ctx context.Context, source, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	if network == "tcp" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
		d.Control = restrictPorts
	}
	return d.DialContext(ctx, network, address)
}

// restrictPorts sets the range of local ports. A kernel before 6.3 ignores it.
func restrictPorts(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_LOCAL_PORT_RANGE, highestPort<<16|lowestPort)
	})
}
