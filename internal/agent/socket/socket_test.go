package socket

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestListen tests that a stale socket file is replaced and that a socket with a server is left
// alone.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "socket")
	if IsServed(path) {
		t.Error("a socket that is not there is served")
	}
	left, err := Listen(path, OwnerAndGroup)
	if err != nil {
		t.Fatal(err)
	}
	if !IsServed(path) {
		t.Error("it is not served")
	}
	if _, err := Listen(path, OwnerAndGroup); err == nil || !strings.Contains(err.Error(), "already served by another process") {
		t.Errorf("a second server: %v", err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // Listen returns a UnixListener
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil || IsServed(path) {
		t.Errorf("stale socket of another process: %v, served %v", err, IsServed(path))
	}
	l, err := Listen(path, Everyone)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket stays when it is closed")
	}
}

func TestListenErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, strings.Repeat("x", 108)): "maximum is 107",
		filepath.Join(file, "socket"):                "not a directory",
	} {
		if _, err := Listen(path, OwnerAndGroup); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", path, err, want)
		}
	}
}
