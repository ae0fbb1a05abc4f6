package controlplane

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// startBalancer passes TCP connections on to the first of some addresses that accepts them, as a Service does for
// replicas, and begins with another one each time. It returns its address and ends with the test.
func startBalancer(t *testing.T, addresses func() []string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{addresses: addresses, open: map[net.Conn]bool{}}
	b.running.Go(func() { b.accept(l) })
	t.Cleanup(func() {
		l.Close()
		b.close()
		b.running.Wait()
	})
	return l.Addr().String()
}

type balancer struct {
	addresses func() []string
	running   sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func (b *balancer) accept(l net.Listener) {
	for n := 0; ; n++ {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		server := b.dial(n)
		if server == nil || !b.trackConnections(client, server) {
			client.Close()
			continue
		}
		for _, pair := range [][2]net.Conn{{client, server}, {server, client}} {
			b.running.Go(func() {
				_, _ = io.Copy(pair[0], pair[1]) // why it ends does not matter
				b.drop(pair[0], pair[1])
			})
		}
	}
}

// dial connects to the first address that accepts, from the n-th on.
func (b *balancer) dial(n int) net.Conn {
	const dialTime = time.Second
	list := b.addresses()
	for i := range list {
		if conn, err := net.DialTimeout("tcp", list[(n+i)%len(list)], dialTime); err == nil {
			return conn
		}
	}
	return nil
}

// trackConnections records open connections. It returns false when the balancer is closed.
func (b *balancer) trackConnections(list ...net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range list {
		if b.closed {
			conn.Close()
			continue
		}
		b.open[conn] = true
	}
	return !b.closed
}

func (b *balancer) drop(list ...net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range list {
		conn.Close()
		delete(b.open, conn)
	}
}

func (b *balancer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for conn := range b.open {
		conn.Close()
	}
}
