package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// maxPath is the longest path that fits into sockaddr_un.sun_path with its trailing zero (unix(7)).
const maxPath = 107

// dialTimeout is how long IsServed waits for the server of a socket to accept a connection.
const dialTimeout = time.Second

// File modes for [Listen]: which users may connect.
const (
	// OwnerAndGroup lets the agent's user and group connect.
	OwnerAndGroup fs.FileMode = 0o660
	// Everyone lets every user connect who can reach the directory.
	Everyone fs.FileMode = 0o666
)

// Listen listens on a Unix socket and sets the file mode of the socket. It creates the directory if
// it is missing and removes any file at the path that no process serves. It fails if a process
// serves the path or the path is longer than maxPath. Closing the listener removes the socket file.
func Listen(path string, mode fs.FileMode) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("socket %q: path has %d bytes, maximum is %d", path, len(path), maxPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("create socket directory: %w", err)
	}
	if IsServed(path) {
		return nil, fmt.Errorf("socket %q: already served by another process", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove stale socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on socket: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("set socket mode: %w", err), l.Close())
	}
	return l, nil
}

// IsServed reports whether a process accepts connections on the socket at path within dialTimeout.
func IsServed(path string) bool {
	connection, err := net.DialTimeout("unix", path, dialTimeout)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}
