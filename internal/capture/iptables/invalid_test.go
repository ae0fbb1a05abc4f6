package iptables_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The flags of a TCP header (RFC 9293).
const (
	tcpFIN = 1 << 0
	tcpSYN = 1 << 1
	tcpRST = 1 << 2
)

// TestDropInvalid sends a segment that belongs to no connection to a closed port: the kernel resets
// it unless the segment is dropped.
func TestDropInvalid(t *testing.T) {
	for manner, options := range manners() {
		for _, drop := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", manner, drop), func(t *testing.T) {
				pod, outside := newPod(t)
				requireManner(t, options)
				options.ExcludeInbound = ports(7, 8).Only
				options.DropInvalid = drop
				mustRun(t, pod, options)
				answered, err := outside.refused(map[uint16]byte{7: tcpFIN, 8: tcpSYN}, 8)
				if err != nil {
					t.Fatal(err)
				}
				if answered[7] == drop {
					t.Errorf("--drop-invalid=%v: an invalid segment was answered: %v", drop, answered[7])
				}
			})
		}
	}
}

// refused sends a segment with some flags to each of several ports of the pod, and returns which
// were reset until the last one was.
func (s space) refused(flags map[uint16]byte, last uint16) (map[uint16]bool, error) {
	answered := map[uint16]bool{}
	err := s.do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 3}); err != nil {
			return err
		}
		pod := netip.MustParseAddr(podAddr4)
		for port, f := range flags {
			if port != last {
				if err := unix.Sendto(fd, segment(port, f), 0, &unix.SockaddrInet4{Addr: pod.As4()}); err != nil {
					return err
				}
			}
		}
		if err := unix.Sendto(fd, segment(last, flags[last]), 0, &unix.SockaddrInet4{Addr: pod.As4()}); err != nil {
			return err
		}
		for end := time.Now().Add(callTimeout); !answered[last] && time.Now().Before(end); {
			packet := make([]byte, 128)
			n, _, err := unix.Recvfrom(fd, packet, 0)
			if err != nil {
				return fmt.Errorf("waiting for the last answer: %w", err)
			}
			const header = 20 // of IPv4, without options
			if n >= header+14 && packet[header+13]&tcpRST != 0 {
				answered[binary.BigEndian.Uint16(packet[header:])] = true
			}
		}
		return nil
	})
	return answered, err
}

// segment is a TCP header from port 5000 of the gateway to a port of the pod.
func segment(port uint16, flags byte) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b[0:], 5000)
	binary.BigEndian.PutUint16(b[2:], port)
	b[12], b[13] = 5<<4, flags
	binary.BigEndian.PutUint16(b[14:], 1000)
	from, to := netip.MustParseAddr(gatewayAddr4).As4(), netip.MustParseAddr(podAddr4).As4()
	pseudo := append(append(append([]byte{}, from[:]...), to[:]...), 0, unix.IPPROTO_TCP, 0, 20)
	var sum uint32
	for _, part := range [][]byte{pseudo, b} {
		for i := 0; i < len(part); i += 2 {
			sum += uint32(binary.BigEndian.Uint16(part[i:]))
		}
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	binary.BigEndian.PutUint16(b[16:], ^uint16(sum))
	return b
}
