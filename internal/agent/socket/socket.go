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

// maxPath is what fits into sockaddr_un.sun_path with its final zero (unix(7)).
const maxPath = 107

// patience is what somebody who serves a socket has to accept a connection.
const patience = time.Second

// Who may connect: those of the agent's user and group, or everybody who reaches the directory.
const (
	Ours     fs.FileMode = 0o660
	Everyone fs.FileMode = 0o666
)

// Listen makes a socket, and the directory that it is in. Closing the listener removes it.
func Listen(path string, who fs.FileMode) (net.Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("socket %q: the path has %d bytes, and may have %d", path, len(path), maxPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if Live(path) {
		return nil, fmt.Errorf("socket %q: another process serves it", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove a socket that nobody serves: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	if err := os.Chmod(path, who); err != nil {
		return nil, errors.Join(fmt.Errorf("make socket: %w", err), l.Close())
	}
	return l, nil
}

// Live says whether somebody serves the socket.
func Live(path string) bool {
	connection, err := net.DialTimeout("unix", path, patience)
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}
