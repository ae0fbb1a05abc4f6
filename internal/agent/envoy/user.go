package envoy

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// User is the user and group of a process.
type User struct{ UID, GID uint32 }

// credential returns u for os/exec, or nil if u is nil. The process has no supplementary groups.
func (u *User) credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID}
}

// Own makes u the owner of a file or directory. If u is nil, it does nothing.
func (u *User) Own(path string) error {
	if u == nil {
		return nil
	}
	if err := os.Chown(path, int(u.UID), int(u.GID)); err != nil {
		return fmt.Errorf("change owner to envoy's user: %w", err)
	}
	return nil
}

// outputPipe is a pipe that belongs to the user of a process, who may thus open it as /dev/stdout.
// What the process writes is copied to a stream.
type outputPipe struct {
	read, write *os.File
	copied      chan struct{}
}

// newOutputPipe returns a pipe for u and starts to copy to stream.
func newOutputPipe(u *User, stream io.Writer) (*outputPipe, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &outputPipe{read: read, write: write, copied: make(chan struct{})}
	go func() {
		defer close(p.copied)
		_, _ = io.Copy(stream, read) // ends when all writers have closed, or with finish
	}()
	if err := write.Chown(int(u.UID), int(u.GID)); err != nil {
		p.closeWriter()
		p.finish()
		return nil, err
	}
	return p, nil
}

// closeWriter closes the agent's write end, once the process has its own.
func (p *outputPipe) closeWriter() { _ = p.write.Close() }

// finish waits until everything is copied, at most outputWaitDelay, because a child of the process
// may keep the pipe open. It then closes the pipe.
func (p *outputPipe) finish() {
	select {
	case <-p.copied:
	case <-time.After(outputWaitDelay):
	}
	_ = p.read.Close()
	<-p.copied
}
