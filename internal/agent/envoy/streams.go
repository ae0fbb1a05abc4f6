package envoy

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// openable gives a stream that a child process of this user can open by name. Envoy opens /dev/stdout for its access logs, which is
// refused where the stream is a socket, as under systemd, or a file of another user, as behind sudo; Envoy would then refuse every
// listener that has a log. Such a stream is written to for it, from a pipe.
func openable(stream io.Writer) io.Writer {
	file, ok := stream.(*os.File)
	if !ok {
		return stream
	}
	// A FIFO that nobody reads must not be waited for.
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return struct{ io.Writer }{file}
	}
	_ = again.Close() // nothing was written to it
	return file
}
