package cluster

import (
	"context"
	"io"
	"net"
	"sync"
)

// door is an address on this machine's loopback that leads to one in a cluster's network.
type door struct {
	listener net.Listener
	dial     func(ctx context.Context) (net.Conn, error)
	cancel   context.CancelFunc
	visitors sync.WaitGroup
}

// openDoor opens a door to where dial leads.
func openDoor(dial func(ctx context.Context) (net.Conn, error)) (*door, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &door{listener: listener, dial: dial, cancel: cancel}
	d.visitors.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			d.visitors.Go(func() { d.carryConnection(ctx, conn) })
		}
	})
	return d, nil
}

func (d *door) addressOf() string { return d.listener.Addr().String() }

// carryConnection carries one connection. The connection of a refused client is closed.
func (d *door) carryConnection(ctx context.Context, outer net.Conn) {
	defer outer.Close()
	inner, err := d.dial(ctx)
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

// copyUntilEnd copies until one side is at its end, and tells the other.
func copyUntilEnd(to, from net.Conn) {
	_, _ = io.Copy(to, from) // however it ends
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// closeAll closes the door and all connections through it.
func (d *door) closeAll() error {
	d.cancel()
	err := d.listener.Close()
	d.visitors.Wait()
	return err
}
