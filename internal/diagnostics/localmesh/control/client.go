package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// ErrNotRunning is the error of a request to a mesh that does not run.
var ErrNotRunning = errors.New("the mesh is not running")

// ErrEnded is the error of a request whose mesh ended before it was answered.
var ErrEnded = errors.New("the mesh has ended")

// Client sends requests to the mesh in a directory.
type Client struct {
	// Dir is the directory of the mesh.
	Dir string
	// Progress, if not nil, is called with each line of progress.
	Progress func(line string)
	// Signals are forwarded to the command of a request. It may be nil.
	Signals <-chan os.Signal
}

// Answer is the result of a request.
type Answer struct {
	Status int
	Value  json.RawMessage
}

// IsRunning reports whether a mesh accepts connections in the directory. It closes its connection
// again.
func (c Client) IsRunning() bool {
	conn, err := c.connect()
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// connect connects to the socket. It returns ErrNotRunning if nothing listens there.
func (c Client) connect() (*net.UnixConn, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(c.Dir, SocketName), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("%w (directory %s: %w)", ErrNotRunning, c.Dir, err)
	}
	return conn, nil
}

// Do sends a request with descriptors and returns the result, or the error of the handler. It
// returns ErrNotRunning if no mesh runs, and ErrEnded if the mesh ends first. If ctx is canceled,
// it disconnects, which ends the command of the request.
func (c Client) Do(ctx context.Context, request Request, files ...*os.File) (Answer, error) {
	conn, err := c.connect()
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	switch err := writeFirst(conn, request, files); {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return Answer{}, fmt.Errorf("%w: %w", ErrEnded, err)
	case err != nil:
		return Answer{}, fmt.Errorf("sending a request to the mesh: %w", err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go c.forwardSignals(conn, ended)
	return c.readAnswer(ctx, conn)
}

// forwardSignals sends signals to the server until ended is closed. A signal that cannot be sent is
// ignored.
func (c Client) forwardSignals(conn *net.UnixConn, ended <-chan struct{}) {
	for {
		select {
		case s := <-c.Signals:
			if number, ok := s.(syscall.Signal); ok {
				_ = json.NewEncoder(conn).Encode(signalMessage{number}) // the mesh may have ended
			}
		case <-ended:
			return
		}
	}
}

// readAnswer reads replies until the last one, calls Progress, if set, for the others, and returns
// the last one's answer or error. It returns ErrEnded if the connection ends before, or the error
// of ctx if that has ended.
func (c Client) readAnswer(ctx context.Context, conn *net.UnixConn) (Answer, error) {
	decoder := json.NewDecoder(conn)
	for {
		var r reply
		if err := decoder.Decode(&r); err != nil {
			if ctx.Err() != nil {
				return Answer{}, ctx.Err()
			}
			return Answer{}, fmt.Errorf("%w: %w", ErrEnded, err)
		}
		switch {
		case r.Done && r.Error != "":
			return Answer{}, errors.New(r.Error)
		case r.Done:
			return Answer{Status: r.Status, Value: r.Value}, nil
		case c.Progress != nil:
			c.Progress(r.Progress)
		}
	}
}

// Stop sends a request that ends the mesh, and waits until it has closed the connection. ErrEnded is
// not returned.
func (c Client) Stop(ctx context.Context, request Request) error {
	if _, err := c.Do(ctx, request); !errors.Is(err, ErrEnded) {
		return err
	}
	return nil
}

// StandardFiles returns the standard input, output and error of this process.
func StandardFiles() []*os.File { return []*os.File{os.Stdin, os.Stdout, os.Stderr} }
