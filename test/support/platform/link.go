package platform

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// linkMode is what a link does with connections.
type linkMode int

const (
	forward linkMode = iota
	delay            // forwards each part of the data later
	refuse           // closes connections
	garble           // sends random bytes and closes connections
)

// linkDelay is the delay of each part of the data in mode delay.
const linkDelay = 100 * time.Millisecond

// link is a proxy of TCP between a platform and its server.
type link struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu    sync.Mutex
	mode  linkMode
	conns map[net.Conn]bool
}

// newLink starts a link to an address, which ends with the test.
func newLink(t testing.TB, target string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{target: target, listener: listener, conns: map[net.Conn]bool{}}
	l.running.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(refuse)
		l.running.Wait()
	})
	return l
}

// address returns the address at which the link listens.
func (l *link) address() string { return l.listener.Addr().String() }

// set changes the mode. It ends all connections if they are not forwarded in the new mode.
func (l *link) set(mode linkMode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mode = mode
	if mode == refuse || mode == garble {
		for c := range l.conns {
			_ = c.Close()
		}
	}
}

func (l *link) accept() {
	for {
		c, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.running.Go(func() { l.serve(c) })
	}
}

// serve handles a connection in the mode of its beginning.
func (l *link) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	switch l.add(c) {
	case refuse:
		return
	case garble:
		_, _ = c.Write(randomBytes())
		return
	}
	defer l.remove(c)
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", l.target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if l.add(server) == refuse {
		return
	}
	defer l.remove(server)
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		defer func() { _ = c.Close() }()
		l.copy(c, server)
	}()
	l.copy(server, c)
	_ = server.Close()
	<-answers
}

// copy forwards data in one direction until one of the connections ends.
func (l *link) copy(to, from net.Conn) {
	data := make([]byte, 64<<10)
	for {
		n, err := from.Read(data)
		if l.currentMode() == delay {
			time.Sleep(linkDelay)
		}
		if _, failed := to.Write(data[:n]); err != nil || failed != nil {
			return
		}
	}
}

// add records a connection, and returns the mode. A connection that is not forwarded is not recorded.
func (l *link) add(c net.Conn) linkMode {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mode == forward || l.mode == delay {
		l.conns[c] = true
	}
	return l.mode
}

func (l *link) remove(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (l *link) currentMode() linkMode {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mode
}

// randomBytes returns bytes that no protocol has.
func randomBytes() []byte {
	random := rand.NewChaCha8([32]byte{})
	data := make([]byte, 512)
	_, _ = random.Read(data)
	return data
}
