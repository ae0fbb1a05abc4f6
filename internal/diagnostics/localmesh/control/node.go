package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/netns"
)

// stopGrace is the time between SIGTERM and SIGKILL for a command whose client has disconnected.
const stopGrace = 2 * time.Second

// FindNode returns the node of a network with a name, or an error with the names of all nodes.
func FindNode(network *netns.Network, name string) (*netns.Node, error) {
	if node := network.Node(name); node != nil {
		return node, nil
	}
	var names []string
	for _, n := range network.Nodes() {
		names = append(names, n.Name())
	}
	return nil, fmt.Errorf("there is no workload %q; there are %q", name, names)
}

// Exec runs the command of a call in a node, with the client's standard files, and returns its exit
// status. It forwards the client's signals, and ends the command if the client disconnects. It
// fails without a command, and unless the call has three files.
func Exec(ctx context.Context, c *Call, node *netns.Node) (status int, err error) {
	if len(c.Args) == 0 {
		return 0, errors.New("there is no command")
	}
	if len(c.Files) != 3 {
		return 0, fmt.Errorf("the request has %d descriptors, want 3", len(c.Files))
	}
	p, err := node.Start(netns.Command{
		Name: "exec", Path: c.Args[0], Args: c.Args[1:], Env: c.Env, Dir: c.Dir,
		Stdin: c.Files[0], Stdout: c.Files[1], Stderr: c.Files[2],
	})
	if err != nil {
		return 0, err
	}
	return Follow(ctx, c, p)
}

// Follow waits for the end of a process and returns its exit status. It forwards the client's
// signals. If ctx ends first, because the client disconnects, it ends the process, after stopGrace
// by SIGKILL. Then it returns 0 with the error of that, nil if the process ended in time.
func Follow(ctx context.Context, c *Call, p *netns.Process) (status int, err error) {
	for {
		select {
		case <-p.Done():
			return p.Status(), nil
		case s := <-c.Signals:
			_ = p.Signal(s) // it may have ended just now
		case <-ctx.Done():
			return 0, p.Stop(stopGrace)
		}
	}
}

// Forward accepts connections of the listener that the client sent, and forwards each to an address
// of a node, or closes it if the address cannot be reached. It blocks until ctx is canceled, which
// closes all connections, or accepting fails, and returns ctx's or that error. It fails at once
// unless the client sent exactly one descriptor, which must be of a listener.
func Forward(ctx context.Context, c *Call, node *netns.Node, address string) error {
	if len(c.Files) != 1 {
		return fmt.Errorf("the request has %d descriptors, want 1", len(c.Files))
	}
	l, err := net.FileListener(c.Files[0])
	if err != nil {
		return err
	}
	return ForwardListener(ctx, l, node, address)
}

// ForwardListener accepts connections of a listener and forwards them to an address of a node. It
// closes the listener and returns an error when ctx is canceled, or accepting fails. Connections
// that were accepted are closed only when ctx is canceled.
func ForwardListener(ctx context.Context, l net.Listener, node *netns.Node, address string) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer l.Close()
	for {
		conn, err := l.Accept()
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil {
			return ctx.Err()
		}
		go forwardConnection(ctx, conn, node, address)
	}
}

// forwardConnection copies bytes in both directions until both sides have closed or ctx is
// canceled. It closes conn if the address cannot be reached.
func forwardConnection(ctx context.Context, conn net.Conn, node *netns.Node, address string) {
	defer conn.Close()
	upstream, err := node.Dial(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer upstream.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close(); _ = upstream.Close() })
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(upstream, conn) // ends with either connection
		closeWrite(upstream)
	}()
	_, _ = io.Copy(conn, upstream) // ends with either connection
	closeWrite(conn)
	<-done
}

// closeWrite closes the sending side of a TCP connection. It does nothing for other connections.
func closeWrite(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // the other side may have closed it
	}
}
