package osthread

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Current opens the network namespace of the calling thread. A caller that compares two calls is
// locked to a thread.
func Current() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }

// NewNetwork makes a network namespace. It needs root, and lasts as long as the file is open or a
// process is in it.
func NewNetwork() (*os.File, error) {
	var made *os.File
	t, err := New(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		made, err = Current()
		return err
	})
	if err != nil {
		return nil, err
	}
	t.Close()
	return made, nil
}

// Inside runs f with its thread in a network namespace: sockets that f itself opens belong to it,
// and stay there, and /proc/sys/net shows its parameters. Goroutines that f starts do not run
// there.
func Inside(network *os.File, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := Current()
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer home.Close()
		if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("enter a network namespace: %w", err)
			return
		}
		err = f()
		if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread() // else the thread ends here
		}
		done <- err
	}()
	return <-done
}
