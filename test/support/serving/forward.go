package serving

import (
	"context"
	"io"
	"net"
	"sync"
)

// Forwarder carries connections from a listener to another address, usually between two network
// namespaces.
type Forwarder struct {
	listener    net.Listener
	dial        func(context.Context) (net.Conn, error)
	cancel      context.CancelFunc
	connections sync.WaitGroup
}

// Forward starts to accept connections of a listener. It carries each to a connection that dial opens, or
// closes it if dial fails. The Forwarder owns the listener.
func Forward(listener net.Listener, dial func(context.Context) (net.Conn, error)) *Forwarder {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Forwarder{listener: listener, dial: dial, cancel: cancel}
	f.connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			f.connections.Go(func() { f.carryConnection(ctx, conn) })
		}
	})
	return f
}

// Address returns the address of the listener, "host:port".
func (f *Forwarder) Address() string { return f.listener.Addr().String() }

// carryConnection carries one connection until both directions have ended.
func (f *Forwarder) carryConnection(ctx context.Context, outer net.Conn) {
	defer outer.Close()
	inner, err := f.dial(ctx)
	if err != nil {
		return
	}
	defer inner.Close()
	stop := context.AfterFunc(ctx, func() {
		outer.Close()
		inner.Close()
	})
	defer stop()
	var back sync.WaitGroup
	back.Go(func() { copyUntilEnd(outer, inner) })
	copyUntilEnd(inner, outer)
	back.Wait()
}

// copyUntilEnd copies until from is at its end, and then closes the writing side of to.
func copyUntilEnd(to, from net.Conn) {
	_, _ = io.Copy(to, from) // however it ends
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// Close closes the listener and all connections, and waits for their goroutines.
func (f *Forwarder) Close() error {
	f.cancel()
	err := f.listener.Close()
	f.connections.Wait()
	return err
}
