package envoy

import (
	"io"
	"os"
	"syscall"
	"testing"
)

// TestOutputThatCannotBeOpened uses a socket as standard output, as systemd units do.
func TestOutputThatCannotBeOpened(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	journal, stdout := os.NewFile(uintptr(pair[0]), "journal"), os.NewFile(uintptr(pair[1]), "stdout")
	defer journal.Close()
	p, err := Start(Command{Path: "/bin/sh", Args: []string{"-c", "echo a log line > /dev/stdout"}, Stdout: stdout})
	if err != nil {
		t.Fatal(err)
	}
	if exit := p.Exit(); exit.Status() != 0 {
		t.Errorf("opening /dev/stdout: %v", exit)
	}
	_ = stdout.Close()
	if got, err := io.ReadAll(journal); err != nil || string(got) != "a log line\n" {
		t.Errorf("output = %q, %v", got, err)
	}
}

// TestOutputThatCanBeOpened tests that such a stream is inherited, not copied.
func TestOutputThatCanBeOpened(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, f := range []*os.File{w, file} {
		if inheritable(f) != io.Writer(f) {
			t.Errorf("%s is copied", f.Name())
		}
	}
}
