package hostileclients

import (
	"context"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// dialFrom connects from a local address.
func dialFrom(ctx context.Context, source, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	if network == "tcp" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
		d.Control = shareLocalPorts
	}
	return d.DialContext(ctx, network, address)
}

// shareLocalPorts lets connections from one address to different servers have the same local port, so that thousands of them
// do not use up the ports of the address.
func shareLocalPorts(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
}
