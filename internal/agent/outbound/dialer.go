package outbound

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// NewDialer returns a dialer that sets the socket mark (SO_MARK) on its connections. If mark is 0,
// no mark is set. A connection fails if its mark cannot be set.
func NewDialer(mark uint32) *net.Dialer { return &net.Dialer{Control: setMark(mark)} }

// NewListenConfig returns a configuration of listeners that sets the socket mark on their packets.
// If mark is 0, no mark is set. Listening fails if the mark cannot be set.
func NewListenConfig(mark uint32) *net.ListenConfig {
	return &net.ListenConfig{Control: setMark(mark)}
}

// setMark returns a function that sets the mark of a socket, or nil if mark is 0.
func setMark(mark uint32) func(network, address string, raw syscall.RawConn) error {
	if mark == 0 {
		return nil
	}
	return func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark))
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return fmt.Errorf("set socket mark %d (MESHPILOT_SOCKET_MARK): %w", mark, err)
		}
		return nil
	}
}
