package outbound

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dialer gives a dialer whose sockets carry the mark (SO_MARK); 0 is none.
func Dialer(mark uint32) *net.Dialer {
	d := &net.Dialer{}
	if mark == 0 {
		return d
	}
	d.Control = func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark))
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return fmt.Errorf("mark a connection with %d (MESHPILOT_SOCKET_MARK): %w", mark, err)
		}
		return nil
	}
	return d
}
