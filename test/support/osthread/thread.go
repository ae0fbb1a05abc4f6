package osthread

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Thread is a thread that starts processes, which the kernel kills when the thread ends.
// PR_SET_PDEATHSIG refers to the thread that started a process, not to the program. So the thread
// must end only with the program or by Close, and not, like other threads of a Go program, with a
// goroutine that was locked to it.
type Thread struct {
	tasks chan func()
	ended chan struct{}
}

// New starts a thread. prepare, if not nil, runs on it first, for instance to move it to another
// namespace, which its processes inherit. If prepare fails, New returns its error and no thread.
func New(prepare func() error) (*Thread, error) {
	t := &Thread{tasks: make(chan func()), ended: make(chan struct{})}
	prepared := make(chan error)
	onOwnThread(func() {
		defer close(t.ended)
		var err error
		if prepare != nil {
			err = prepare()
		}
		if prepared <- err; err != nil {
			return
		}
		for task := range t.tasks {
			task()
		}
	})
	if err := <-prepared; err != nil {
		return nil, err
	}
	return t, nil
}

// Do runs f on the thread.
func (t *Thread) Do(f func() error) error {
	result := make(chan error)
	t.tasks <- func() { result <- f() }
	return <-result
}

// Start starts a command on the thread, to be killed when that ends.
func (t *Thread) Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return t.Do(cmd.Start)
}

// Close ends the thread and the processes that it started. Nothing may be started after it.
func (t *Thread) Close() {
	close(t.tasks)
	<-t.ended // the thread itself ends a moment later
}

// onOwnThread runs f on a thread that ends with it.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// All threads but the first: that one lives as long as the program. While we hold it,
		// another is not it.
		ended := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			defer close(ended)
			f()
		}()
		<-ended
		runtime.UnlockOSThread()
	}()
}
