package envoy

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUser runs a process as another user: it can open its output by name, and a file that it owns.
func TestUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may start a process as another user: CI runs this as root")
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // for the other user
		t.Fatal(err)
	}
	file := filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	user := &User{UID: 1337, GID: 1338}
	if err := user.Own(file); err != nil {
		t.Fatal(err)
	}
	var out, errors bytes.Buffer
	p, err := Start(Command{
		Path: "/bin/sh", Args: []string{"-c", "id -u > /dev/stdout; id -G; cat secret; echo failure > /dev/stderr; exit 3"},
		Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: dir, User: user, Stdout: &out, Stderr: &errors,
	})
	if err != nil {
		t.Fatal(err)
	}
	if exit := p.Exit(); exit.Code != 3 {
		t.Errorf("exit %v", exit)
	}
	if diff := cmp.Diff("1337\n1338\nsecret\nfailure\n", out.String()+errors.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	if err := user.Own(filepath.Join(dir, "none")); err == nil {
		t.Error("no error for a missing file")
	}
	if _, err := Start(Command{Path: filepath.Join(dir, "none"), User: user, Stdout: &out}); err == nil {
		t.Error("a missing program is started")
	}
}

// TestOutputOfAnotherUsersChild tests that a child that keeps the output open does not delay the exit
// for longer than outputWaitDelay.
func TestOutputOfAnotherUsersChild(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may start a process as another user: CI runs this as root")
	}
	var out bytes.Buffer
	p, err := Start(Command{
		Path: "/bin/sh", Args: []string{"-c", "sleep 60 & echo $!"}, Env: []string{"PATH=" + os.Getenv("PATH")},
		User: &User{UID: 1337, GID: 1337}, Stdout: &out,
	})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	var child int
	for _, digit := range bytes.TrimSpace(out.Bytes()) {
		child = 10*child + int(digit-'0')
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Errorf("end the child %d: %v", child, err)
	}
}
