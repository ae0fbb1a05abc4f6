package localmesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
	"github.com/meshpilot/meshpilot/internal/diagnostics/localmesh/control"
)

const (
	// downTime bounds the wait for a mesh to end in order.
	downTime = 60 * time.Second
	// pollEnd is how often it is examined whether a supervisor has started or ended.
	pollEnd = 20 * time.Millisecond
)

// Supervise runs a mesh in a sandbox in this process, until it is asked to end. It executes this
// program twice more with the same arguments. It is what [Up] starts. It returns an error if
// another mesh runs in the directory, or if the mesh has ended with one.
func Supervise(o Options) error {
	if netns.Outside() {
		lock, err := lockState(o.Dir)
		if err != nil {
			return err
		}
		defer lock.Close() // held until everything in the sandbox has ended
	}
	code, err := netns.Run(func() int {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		if err := Run(ctx, o, log); err != nil {
			log.Error("the mesh has ended with an error", "error", err)
			return 1
		}
		return 0
	})
	if err == nil && code != 0 {
		err = fmt.Errorf("the supervisor has ended with status %d", code)
	}
	return err
}

// Up starts a mesh in the background, waits until its workloads are ready or have failed, and
// returns its status. command is the command line of a process that calls Supervise with o.
// console, if not nil, is a listener of this machine at which the control plane is served; Up
// leaves it to the mesh. progress, if not nil, is called with each message until then. It returns
// errRunning if a mesh runs in the directory. If the process cannot be started, or an error occurs
// or ctx ends afterwards, it ends the mesh and removes its files.
func Up(ctx context.Context, o Options, command []string, console *net.TCPListener, progress func(string)) (Status,
	error) {
	if isLocked(o.Dir) {
		return Status{}, errRunning
	}
	if err := removeFiles(o.Dir); err != nil {
		return Status{}, fmt.Errorf("removing the files of a former mesh: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(o.Dir, nodesDir), 0o700); err != nil {
		return Status{}, err
	}
	process, ended, err := startDetached(o.Dir, command)
	if err != nil {
		return Status{}, errors.Join(err, removeAll(o.Dir))
	}
	client := control.Client{Dir: o.Dir, Progress: progress}
	for !client.IsRunning() {
		select {
		case <-ended:
			return Status{}, supervisorError(o.Dir)
		case <-ctx.Done():
			_ = process.Signal(syscall.SIGTERM) // it may have ended just now
			<-ended
			return Status{}, errors.Join(ctx.Err(), removeAll(o.Dir))
		case <-time.After(pollEnd):
		}
	}
	status, err := awaitMesh(ctx, client, console)
	if err != nil {
		_, _ = Down(context.WithoutCancel(ctx), o.Dir) // the first error is the cause
		return Status{}, err
	}
	return status, nil
}

// awaitMesh has the control plane served at console if that is not nil, and waits until the
// workloads are ready or have failed. Its error is that of the mesh, for example if the console's
// port cannot be served.
func awaitMesh(ctx context.Context, client control.Client, console *net.TCPListener) (status Status, err error) {
	if console != nil {
		file, err := console.File()
		if err != nil {
			return status, err
		}
		defer file.Close()
		if _, err := client.Do(ctx, control.Request{Action: actionPublish}, file); err != nil {
			return status, err
		}
	}
	answer, err := client.Do(ctx, control.Request{Action: actionAwait})
	if err != nil {
		return status, err
	}
	return status, json.Unmarshal(answer.Value, &status)
}

// startDetached starts the supervisor in a session of its own, with its output in the log file of
// dir, which is emptied first. It does not wait for it; ended is closed when it has ended. command
// must not be empty.
func startDetached(dir string, command []string) (process *os.Process, ended <-chan struct{}, err error) {
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting the supervisor: %w", err)
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log has the reason
		close(done)
	}()
	return cmd.Process, done, nil
}

// supervisorError returns the last line of the log of a supervisor that has ended early, as an
// error. It removes the directory of the mesh, unless the log cannot be read.
func supervisorError(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil {
		return err
	}
	return errors.Join(errors.New(strings.TrimPrefix(lastLine(string(text)), "pilotctl: ")), removeAll(dir))
}

// Down ends a mesh and removes its files. It also removes the files of a mesh that was killed. It
// reports whether there was a mesh. It returns an error if the mesh does not end within downTime;
// its files then stay.
func Down(ctx context.Context, dir string) (bool, error) {
	if !hasState(dir) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, downTime)
	defer cancel()
	client := control.Client{Dir: dir}
	if err := client.Stop(ctx, control.Request{Action: actionStop}); err != nil &&
		!errors.Is(err, control.ErrNotRunning) {
		return true, fmt.Errorf("ending the mesh: %w", err)
	}
	for isLocked(dir) {
		select {
		case <-ctx.Done():
			return true, errors.New("the supervisor of the mesh does not end")
		case <-time.After(pollEnd):
		}
	}
	return true, removeAll(dir)
}

// removeAll removes the directory of a mesh that has ended.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the files of the mesh: %w", err)
	}
	return nil
}

// ReadStatus returns the status of a mesh. It returns an error with the next step if it does not
// run.
func ReadStatus(ctx context.Context, dir string) (status Status, err error) {
	answer, err := control.Client{Dir: dir}.Do(ctx, control.Request{Action: actionStatus})
	if err != nil {
		return status, explainNotRunning(dir, err)
	}
	return status, json.Unmarshal(answer.Value, &status)
}

// Exec runs a command in a workload with the standard files, the environment and the working
// directory of this process, and returns its exit status. If the mesh does not run, the error has
// the next step.
func Exec(ctx context.Context, dir, workload string, args []string, signals <-chan os.Signal) (int, error) {
	wd, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	answer, err := control.Client{Dir: dir, Signals: signals}.Do(ctx, control.Request{
		Action: actionExec, Node: workload, Args: args, Env: os.Environ(), Dir: wd,
	}, control.StandardFiles()...)
	return answer.Status, explainNotRunning(dir, err)
}

// RunProgram runs a program as a workload of a mesh, with the standard files of this process, and
// returns its exit status. If the mesh does not run, the error has the next step.
func RunProgram(ctx context.Context, dir string, o RunOptions, args []string, signals <-chan os.Signal) (int, error) {
	wd, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	spec, err := json.Marshal(o)
	if err != nil {
		return 0, err
	}
	answer, err := control.Client{Dir: dir, Signals: signals}.Do(ctx, control.Request{
		Action: actionRun, Args: args, Env: os.Environ(), Dir: wd, Spec: spec,
	}, control.StandardFiles()...)
	return answer.Status, explainNotRunning(dir, err)
}

// Forward forwards connections of a listener to a port of a workload until ctx is canceled or the
// mesh ends. Then it returns nil. If the mesh does not run, it returns an error instead.
func Forward(ctx context.Context, dir, workload, port string, l *net.TCPListener) error {
	file, err := l.File()
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = control.Client{Dir: dir}.Do(ctx, control.Request{
		Action: actionForward, Node: workload, Args: []string{net.JoinHostPort("127.0.0.1", port)},
	}, file)
	if errors.Is(err, control.ErrEnded) || ctx.Err() != nil {
		return nil
	}
	return explainNotRunning(dir, err)
}

// explainNotRunning adds the next step to the error of a request to a mesh that does not run, or
// that ended before it answered. Other errors are unchanged.
func explainNotRunning(dir string, err error) error {
	ended := errors.Is(err, control.ErrEnded)
	switch {
	case !ended && !errors.Is(err, control.ErrNotRunning):
		return err
	case isLocked(dir):
		return fmt.Errorf("the mesh in %s is starting or ending", dir)
	case hasState(dir):
		return fmt.Errorf("the mesh in %s was killed: pilotctl mesh down removes its files, pilotctl mesh up starts another one", dir)
	case ended:
		return err
	default:
		return errors.New("the mesh is not running: pilotctl mesh up starts one")
	}
}
