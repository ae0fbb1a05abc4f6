package iptables

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/google/nftables/binaryutil"
	"golang.org/x/sys/unix"
)

// originalDestination returns the destination of a connection before it was redirected. For a
// connection that was not redirected it returns an error or, on some kernels, the local address.
func originalDestination(conn *net.TCPConn) (netip.AddrPort, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("read original destination: %w", err)
	}
	local, _ := conn.LocalAddr().(*net.TCPAddr)
	read := originalDestination4
	if local.AddrPort().Addr().Unmap().Is6() {
		read = originalDestination6
	}
	var dst netip.AddrPort
	var sockErr error
	if err := raw.Control(func(fd uintptr) { dst, sockErr = read(int(fd)) }); err != nil {
		return netip.AddrPort{}, fmt.Errorf("read original destination: %w", err)
	}
	if sockErr != nil {
		return netip.AddrPort{}, fmt.Errorf("read original destination: %w", sockErr)
	}
	return dst, nil
}

// originalDestination4 returns the original destination of the captured IPv4 connection whose
// socket is fd. It reads the kernel's sockaddr_in, for which x/sys has no getsockopt, as a larger
// type. That has two bytes of family, two of port in network order, four of address.
func originalDestination4(fd int) (netip.AddrPort, error) {
	value, err := unix.GetsockoptIPv6Mreq(fd, unix.SOL_IP, unix.SO_ORIGINAL_DST)
	if err != nil {
		return netip.AddrPort{}, err
	}
	b := value.Multiaddr
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:4])), nil
}

// originalDestination6 returns the original destination of the captured IPv6 connection whose
// socket is fd. It reads the kernel's sockaddr_in6 as the first part of a larger type.
func originalDestination6(fd int) (netip.AddrPort, error) {
	// IP6T_SO_ORIGINAL_DST has the number of SO_ORIGINAL_DST.
	value, err := unix.GetsockoptIPv6MTUInfo(fd, unix.SOL_IPV6, unix.SO_ORIGINAL_DST)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port := binary.BigEndian.Uint16(binaryutil.NativeEndian.PutUint16(value.Addr.Port))
	return netip.AddrPortFrom(netip.AddrFrom16(value.Addr.Addr), port), nil
}
