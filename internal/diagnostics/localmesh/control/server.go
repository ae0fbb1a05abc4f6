package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// SocketName is the name of the socket in the directory of a mesh.
const SocketName = "control.sock"

// Call is a request that is being handled.
type Call struct {
	Request
	// Files are the descriptors that the client sent. The server closes them after the call.
	Files []*os.File
	// Signals has the signals that the client sends to its command.
	Signals <-chan syscall.Signal

	conn *net.UnixConn
}

// Progress sends a line that the client shows. A client that has disconnected is ignored.
func (c *Call) Progress(line string) { _ = json.NewEncoder(c.conn).Encode(reply{Progress: line}) }

// Result is the result of a call.
type Result struct {
	// Status is the exit status of a command.
	Status int
	// Value is encoded as JSON. It may be nil.
	Value any
}

// Handler handles the calls of one action. ctx is canceled when the client disconnects.
type Handler func(ctx context.Context, c *Call) (Result, error)

// Server answers requests until it is closed.
type Server struct {
	listener *net.UnixListener
	handlers map[string]Handler
}

// Listen creates the socket at a path and serves requests there by the handlers of their actions,
// in the background. Only the user may connect. It returns an error if the path exists already. The
// caller must close the Server.
func Listen(path string, handlers map[string]Handler) (*Server, error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening for commands: %w", err)
	}
	s := &Server{listener: l, handlers: handlers}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go s.accept()
	return s, nil
}

// Close removes the socket. Calls in progress continue.
func (s *Server) Close() error { return s.listener.Close() }

// acceptRetry is the time until the next attempt if a connection cannot be accepted, for example
// because the process has too many open files.
const acceptRetry = 100 * time.Millisecond

// accept handles connections, each in a goroutine of its own, until the listener is closed. It does
// not wait for their end.
func (s *Server) accept() {
	for {
		conn, err := s.listener.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			<-time.After(acceptRetry)
		default:
			go s.handle(conn)
		}
	}
}

// handle handles the request of one connection. A connection without a request is closed. The reply
// has the result or the error; the client's files are closed.
func (s *Server) handle(conn *net.UnixConn) {
	defer conn.Close()
	first, files, err := readFirst(conn)
	defer closeAll(files)
	if errors.Is(err, errDisconnected) {
		return
	}
	var result Result
	if err == nil {
		result, err = s.call(conn, first, files)
	}
	last := reply{Done: true, Status: result.Status}
	if err == nil && result.Value != nil {
		last.Value, err = json.Marshal(result.Value)
	}
	if err != nil {
		last.Error = err.Error()
	}
	_ = json.NewEncoder(conn).Encode(last) // the client may have disconnected
}

// call reads the rest of a request and calls its handler, which receives the later signals of the
// client in Signals. The context of the handler ends when the client disconnects. An unknown action
// is an error.
func (s *Server) call(conn *net.UnixConn, first []byte, files []*os.File) (Result, error) {
	decoder := json.NewDecoder(io.LimitReader(io.MultiReader(bytes.NewReader(first), conn), maxRequest))
	var request Request
	if err := decoder.Decode(&request); err != nil {
		return Result{}, fmt.Errorf("reading a request: %w", err)
	}
	handler := s.handlers[request.Action]
	if handler == nil {
		return Result{}, fmt.Errorf("this mesh does not support the action %q", request.Action)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan syscall.Signal, 16)
	go func() {
		defer cancel()
		for {
			var m signalMessage
			if err := decoder.Decode(&m); err != nil {
				return
			}
			select {
			case signals <- m.Signal:
			case <-ctx.Done():
				return
			}
		}
	}()
	return handler(ctx, &Call{Request: request, Files: files, Signals: signals, conn: conn})
}

// closeAll closes all files and ignores their errors.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // only closes a descriptor
	}
}
