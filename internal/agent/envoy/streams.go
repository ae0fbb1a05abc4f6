package envoy

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// inheritable returns stream if a child process of this user can open it by name, or if it is no
// file. Otherwise it returns a writer that makes os/exec copy from a pipe. Envoy opens /dev/stdout
// for access logs. That fails if the stream is a socket (systemd) or a file of another user (sudo),
// and Envoy would then reject every listener with an access log.
func inheritable(stream io.Writer) io.Writer {
	file, ok := stream.(*os.File)
	if !ok {
		return stream
	}
	// Must not block on a FIFO without a reader.
	path := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	flags := os.O_WRONLY | os.O_APPEND | syscall.O_NONBLOCK | syscall.O_NOCTTY
	again, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return struct{ io.Writer }{file}
	}
	_ = again.Close() // nothing was written to it
	return file
}
