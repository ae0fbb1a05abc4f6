package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// onDisposableThread runs f on an operating system thread of its own that ends with it, and returns
// its error. Whatever f does to the thread's namespaces, no other goroutine gets to run there.
func onDisposableThread(f func() error) error {
	done := make(chan error, 1)
	goOnLockedThread(func() { done <- f() }) // never unlocked, so the thread is not reused
	return <-done
}

// goOnLockedThread starts f in a goroutine that is locked to its thread, and does not wait for it.
// The thread ends with f unless f unlocks it. It is never the first thread of the process, which
// cannot end: its namespaces are shown in /proc for the whole process. Node.Close would kill this
// process as one of the node.
func goOnLockedThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			f()
		}()
		<-locked
		runtime.UnlockOSThread()
	}()
}

// Do runs f with its thread in the node's network namespace, and returns its error; only the
// network differs. Sockets that f itself opens belong to the node, and stay there. Goroutines that
// f starts do not run there. If the node is closed, it returns an error without calling f.
func (n *Node) Do(f func() error) error {
	done := make(chan error, 1)
	goOnLockedThread(func() {
		if err := n.enterNamespaces(unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		err := f()
		if n.network.leaveNodes() == nil {
			runtime.UnlockOSThread() // else the thread ends here
		}
		done <- err
	})
	return <-done
}

// leaveNodes moves the calling thread back into the network namespace that New found. It returns an
// error if the network has been closed.
func (n *Network) leaveNodes() error {
	home, err := n.home.SyscallConn() // unlike Fd, it may be used while another goroutine closes the file
	if err != nil {
		return err
	}
	var failure error
	err = home.Control(func(fd uintptr) { failure = unix.Setns(int(fd), unix.CLONE_NEWNET) })
	return errors.Join(err, failure)
}

// enterNamespaces moves the calling thread into those namespaces of the node that kinds selects
// (CLONE_NEW flags). It returns an error if the node is closed.
func (n *Node) enterNamespaces(kinds int) error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.net == nil {
		return fmt.Errorf("entering node %q: it is closed", n.name)
	}
	for _, ns := range []struct {
		kind int
		file *os.File
	}{{unix.CLONE_NEWNET, n.net}, {unix.CLONE_NEWUTS, n.uts}, {unix.CLONE_NEWNS, n.mnt}} {
		if kinds&ns.kind == 0 {
			continue
		}
		if err := unix.Setns(int(ns.file.Fd()), ns.kind); err != nil {
			return fmt.Errorf("entering node %q: %w", n.name, err)
		}
	}
	return nil
}

// inodeOf returns the inode number. info must be of a file of the operating system.
func inodeOf(info fs.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
