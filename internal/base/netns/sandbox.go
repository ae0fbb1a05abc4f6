package netns

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageVar is the variable with the stage of a program that Run executed again.
const stageVar = "MESHPILOT_NETNS_STAGE"

const (
	stageInit   = "init"   // PID 1 of the sandbox
	stageInside = "inside" // the program itself
)

// reportFD is the descriptor to which PID 1 writes whether the sandbox is ready: "ok", or an error.
const reportFD = 3

const reportReady = "ok"

// Run runs main in a sandbox and returns its exit status: 128+n when signal n ended it.
//
// Call it first in main, or through [TestMain]: the program is executed twice more, with the same
// arguments, and statements before the call run each time. SIGINT, SIGTERM, SIGQUIT and SIGHUP are
// forwarded to main.
//
// The error has one line, with the reason why no sandbox can be made; main has then not been
// called.
func Run(main func() int) (int, error) {
	switch os.Getenv(stageVar) { //nolint:forbidigo // see the package comment
	case stageInit:
		os.Exit(runInit())
	case stageInside:
		return main(), nil
	}
	if os.Geteuid() != 0 {
		code, err := launchInside(true)
		return code, explainError(err)
	}
	code, err := launchInside(false)
	var denied *deniedError
	if !errors.As(err, &denied) {
		return code, err
	}
	// Root without CAP_SYS_ADMIN, as in a container: a user namespace may still be allowed.
	code, userErr := launchInside(true)
	if userErr != nil {
		return code, explainError(fmt.Errorf("as root: %w; in a user namespace: %w", err, userErr))
	}
	return code, nil
}

// Inside reports whether the program runs in a sandbox, so that New can work.
func Inside() bool { return os.Getenv(stageVar) == stageInside } //nolint:forbidigo // see the package comment

// Outside reports whether the program has not been executed again by Run: it is the process that
// the user started.
func Outside() bool { return os.Getenv(stageVar) == "" } //nolint:forbidigo // see the package comment

// deniedError is the error of a sandbox that could not be made, not of a program that failed in it.
type deniedError struct{ reason string }

func (e *deniedError) Error() string { return e.reason }

// launchInside executes this program as PID 1 of new namespaces, including a user namespace if
// userNamespace is set. It forwards SIGINT, SIGTERM, SIGQUIT and SIGHUP, and returns the exit
// status. It returns a *deniedError if the sandbox cannot be made.
func launchInside(userNamespace bool) (int, error) {
	report, reportW, err := os.Pipe()
	if err != nil {
		return 1, fmt.Errorf("making the report pipe of a sandbox: %w", err)
	}
	defer report.Close()

	cmd := exec.Command("/proc/self/exe")
	cmd.Args = os.Args
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(withoutStage(os.Environ()), stageVar+"="+stageInit)
	cmd.ExtraFiles = []*os.File{reportW}
	cmd.SysProcAttr = sandboxAttr(userNamespace)

	// Caught before the start, so that none is lost; buffered, so that none is dropped.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	defer signal.Stop(signals)

	// Pdeathsig is sent when the *thread* that forked ends, so that thread must outlive the child.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	reportW.Close()
	if err != nil {
		return 1, &deniedError{err.Error()}
	}
	stop := make(chan struct{})
	defer close(stop)
	go forwardSignals(signals, cmd.Process, stop)

	said, _ := io.ReadAll(io.LimitReader(report, 64<<10))
	err = cmd.Wait()
	if string(said) != reportReady {
		reason := strings.TrimSpace(string(said))
		if reason == "" {
			reason = fmt.Sprintf("the first process of the sandbox ended early: %v", err)
		}
		return 1, &deniedError{reason}
	}
	return exitStatus(cmd.ProcessState.Sys().(syscall.WaitStatus)), nil
}

// sandboxAttr returns the attributes of a process in new namespaces. In a user namespace it is
// root, and no other user exists. It has a process group of its own, and is killed when the thread
// that starts it ends.
func sandboxAttr(userNamespace bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
		// A Ctrl-C at the terminal must reach the outer program alone, which passes it on once.
		Setpgid: true,
	}
	if userNamespace {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// forwardSignals passes signals on to a process until stop is closed, forever if stop is nil.
// Errors are ignored.
func forwardSignals(signals <-chan os.Signal, to *os.Process, stop <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			_ = to.Signal(s) // it may have ended just now
		case <-stop:
			return
		}
	}
}

// exitStatus returns the exit status that a shell reports: 128+n if signal n ended the process.
func exitStatus(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// withoutStage returns a copy of env without the variable that Run uses to mark its stages.
func withoutStage(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool { return strings.HasPrefix(kv, stageVar+"=") })
}
