package osthread

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestProcessesEndWithTheirThread(t *testing.T) {
	th, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "echo runs; exec cat")
	if _, err := cmd.StdinPipe(); err != nil { // held open: cat does not end of itself
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := th.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "runs\n" {
		t.Fatalf("output = %q (%v)", line, err)
	}
	th.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("it ended by %v, want a kill", err)
		}
	case <-time.After(10 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("it outlives its thread")
	}
}

func TestNoThreadWithoutItsPreparation(t *testing.T) {
	if th, err := New(func() error { return io.ErrUnexpectedEOF }); th != nil || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("New = %v, %v", th, err)
	}
}
