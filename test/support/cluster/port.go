package cluster

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// port is a reserved port of loopback, whether or not a process listens on it: a socket that is
// bound and does not listen reserves it, and only processes that set SO_REUSEPORT (the programs
// have a flag for that) can listen.
type port struct {
	fd     int
	number uint16
}

func reservePort(addr netip.Addr) (*port, error) {
	family := unix.AF_INET
	if addr.Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve a port: %w", err)
	}
	p := &port{fd: fd}
	if err := p.bindAddress(addr); err != nil {
		p.releasePort()
		return nil, fmt.Errorf("reserve a port of %s: %w", addr, err)
	}
	return p, nil
}

func (p *port) bindAddress(addr netip.Addr) error {
	if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	var sa unix.Sockaddr = &unix.SockaddrInet6{Addr: addr.As16()}
	if addr.Is4() {
		sa = &unix.SockaddrInet4{Addr: addr.As4()}
	}
	if err := unix.Bind(p.fd, sa); err != nil {
		return err
	}
	sa, err := unix.Getsockname(p.fd)
	if err != nil {
		return err
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		p.number = uint16(sa.Port)
	case *unix.SockaddrInet6:
		p.number = uint16(sa.Port)
	}
	return nil
}

func (p *port) releasePort() { _ = unix.Close(p.fd) }
