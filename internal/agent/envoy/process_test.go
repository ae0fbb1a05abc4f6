package envoy

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start starts the test binary in a role, and waits until it prints a line or ends.
func start(t *testing.T, role string, args ...string) *Process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := Start(Command{Path: os.Args[0], Args: args, Env: []string{roleVar + "=" + role}, Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(closed()) })
	_, _ = bufio.NewReader(r).ReadString('\n') // an error means that it has ended
	return p
}

// closed returns a closed channel, to stop without waiting.
func closed() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}

func TestExitIsPassedOn(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 1, 42} {
		p := start(t, "exit", strconv.Itoa(code))
		if exit := p.Exit(); exit != (Exit{Code: code}) || exit.Status() != code {
			t.Errorf("exit %d: %+v, status %d", code, exit, exit.Status())
		}
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	p := start(t, "polite")
	select {
	case <-p.Exited():
		t.Fatal("exited before it was killed")
	default:
	}
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exit := p.Exit()
	if exit.Status() != 137 || !strings.Contains(exit.String(), "signal 9 (SIGKILL)") {
		t.Errorf("status %d, %q", exit.Status(), exit)
	}
	err := error(&ExitError{Exit: exit})
	if want := "envoy was killed by signal 9 (SIGKILL): by a user, or by the kernel's OOM killer"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	never := make(chan time.Time)
	if exit := start(t, "polite").Stop(never); exit != (Exit{}) {
		t.Errorf("polite: %v, want status 0", exit)
	}
	if exit := start(t, "stubborn").Stop(time.After(50 * time.Millisecond)); exit.Signal != syscall.SIGKILL {
		t.Errorf("stubborn: %v, want an end by SIGKILL", exit)
	}
	ended := start(t, "exit", "3")
	<-ended.Exited()
	if exit := ended.Stop(never); exit.Code != 3 {
		t.Errorf("ended before: %v, want status 3", exit)
	}
}

func TestStreamsAndEnvironment(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	p, err := Start(Command{Path: os.Args[0], Args: []string{"argument"}, Env: []string{roleVar + "=print", "GREETING=hello"}, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	p.Exit()
	if out.String() != "out:argument" || errs.String() != "err:hello" {
		t.Errorf("output %q, errors %q", out.String(), errs.String())
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(text, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(t.TempDir(), "envoy")
	if err := os.WriteFile(plain, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"/nowhere/envoy": fs.ErrNotExist, text: syscall.ENOEXEC, plain: fs.ErrPermission} {
		_, err := Start(Command{Path: path})
		if !errors.Is(err, want) || !strings.Contains(err.Error(), "start envoy \""+path+"\"") {
			t.Errorf("%s: %v, want it named, and %v", path, err, want)
		}
	}
}

// TestNoProcessOutlivesItsParent kills a parent by SIGKILL.
func TestNoProcessOutlivesItsParent(t *testing.T) {
	t.Parallel()
	parent := exec.Command(os.Args[0])
	parent.Env = []string{roleVar + "=parent"}
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if killErr := parent.Process.Kill(); killErr != nil {
		t.Error(killErr)
	}
	_ = parent.Wait()
	if err != nil {
		t.Fatalf("output of the parent = %q", line)
	}
	deadline := time.Now().Add(5 * time.Second)
	for running(child) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(child, syscall.SIGKILL)
			t.Fatal("the child outlived its parent")
		}
		time.Sleep(time.Millisecond)
	}
}

// running reports whether the process exists and is not a zombie: a container may have no process
// that reaps it.
func running(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(status), ") ")
	return !strings.HasPrefix(rest, "Z")
}
