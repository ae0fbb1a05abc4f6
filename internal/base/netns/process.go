package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Command describes a process to start in a node.
type Command struct {
	// Name is the name of the log file in the node's directory, without ".log". Default: the base
	// name of Path.
	Name string
	// Path is the program, looked up in PATH when it has no slash; Args follow it.
	Path string
	Args []string
	// Env is the environment, "k=v" each, after PATH, HOME and TMPDIR of this program. Nothing else
	// is inherited.
	Env []string
	// Dir is the working directory, by default this program's.
	Dir string
	// UID, when not 0, is the user and group to run as. The sandbox must map it, see MapsUID.
	UID int
	// Stdin, Stdout and Stderr replace nothing, the log and the log. The log is appended to.
	Stdin, Stdout, Stderr *os.File
}

// Process is a running or ended process of a node.
type Process struct {
	node *Node
	name string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait, once done is closed
}

// Start starts a process in the node's network, mount and UTS namespaces, as leader of a process
// group of its own. Its output is appended to its log unless c replaces it. It returns an error if
// the program is not found or cannot be started, or the node is closed.
func (n *Node) Start(c Command) (*Process, error) {
	p, err := n.newProcess(c)
	if err == nil {
		err = p.startCommand(c)
	}
	if err != nil {
		return nil, fmt.Errorf("starting %s on node %q: %w", c.Path, n.name, err)
	}
	return p, nil
}

// newProcess returns the process of a command without starting it. It returns an error if the
// program is not found. The name defaults to the base of the path, the directory to the current
// one. The environment is baseEnv and c.Env. UID 0 is the present user; any other is the user and
// the group.
func (n *Node) newProcess(c Command) (*Process, error) {
	path, err := exec.LookPath(c.Path)
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Path)
	}
	cmd := exec.Command(path, c.Args...)
	cmd.Env = append(baseEnv(), c.Env...)
	// Entering a mount namespace moves the thread to its root, so the directory must be set.
	if cmd.Dir = c.Dir; cmd.Dir == "" {
		if cmd.Dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.UID != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.UID)}
	}
	return &Process{
		node: n, name: c.Name, log: filepath.Join(n.dir, c.Name+".log"), cmd: cmd, done: make(chan struct{}),
	}, nil
}

// baseEnv returns the variables that every process inherits from this program. They are PATH, HOME
// and TMPDIR, as far as they are set.
func baseEnv() []string {
	var env []string
	for _, k := range []string{"PATH", "HOME", "TMPDIR"} {
		if v, ok := os.LookupEnv(k); ok { //nolint:forbidigo // what each process inherits
			env = append(env, k+"="+v)
		}
	}
	return env
}

// startCommand starts the process in the node's namespaces, and a goroutine that waits for its end
// and then closes p.done. Its output is appended to the log; c may replace input and both outputs.
// It returns an error if the log cannot be opened, the node is closed or the start fails.
func (p *Process) startCommand(c Command) error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// Only when set: a nil *os.File in an interface is not nil.
	if c.Stdin != nil {
		p.cmd.Stdin = c.Stdin
	}
	if c.Stdout != nil {
		p.cmd.Stdout = c.Stdout
	}
	if c.Stderr != nil {
		p.cmd.Stderr = c.Stderr
	}
	err = onDisposableThread(func() error {
		// A thread that shares its root and working directory with others may not change mount
		// namespaces.
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		if err := p.node.enterNamespaces(unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWNS); err != nil {
			return err
		}
		return p.cmd.Start()
	})
	if err != nil {
		return err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

// PID returns the process's number in this PID namespace.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Name returns the name of the command (Command.Name).
func (p *Process) Name() string { return p.name }

// LogPath returns the path of the file to which the process's output is appended.
func (p *Process) LogPath() string { return p.log }

// Done returns a channel that is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns nil while the process runs and when it ended with status 0, else how it ended, as of
// exec.Cmd.Wait.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Status waits for the process to end and returns its exit status, 128+n when signal n ended it.
func (p *Process) Status() int {
	<-p.done
	return exitStatus(p.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// Signal sends a signal to the process alone. An ended process is not an error.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %s to %s on node %q: %w", s, p.name, p.node.name, err)
	}
	return nil
}

// Stop sends SIGTERM, and SIGKILL to the whole process group when it has not ended after grace. It
// returns when the process has ended, with an error only if it had to be killed. If SIGTERM cannot
// be sent, it returns that error at once.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // it may have ended just now
	<-p.done
	return p.newError(fmt.Errorf("did not end within %s of SIGTERM", grace))
}

// Tail returns the last lines of the log, at most that many, or "" if it cannot be read.
func (p *Process) Tail(lines int) string { return tailOf(p.log, lines) }

// tailOf returns the last lines of a file, at most that many, without final newlines. It returns ""
// if the file cannot be read.
func tailOf(path string, lines int) string {
	all := strings.Split(strings.TrimRight(readFile(path), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
