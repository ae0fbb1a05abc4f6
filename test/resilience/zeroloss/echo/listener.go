package echo

import (
	"bufio"
	"crypto/tls"
	"net"
	"sync"
)

// tlsHandshake is the first byte of a TLS connection (RFC 8446, section 5.1: ContentType
// handshake).
const tlsHandshake = 0x16

// listener accepts connections that speak TLS or do not.
type listener struct {
	net.Listener
	config *tls.Config
	ready  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newListener(l net.Listener, config *tls.Config) *listener {
	d := &listener{Listener: l, config: config, ready: make(chan net.Conn), closed: make(chan struct{})}
	go d.acceptAll()
	return d
}

func (l *listener) acceptAll() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			l.Close()
			return
		}
		go l.awaitFirstByte(c)
	}
}

// awaitFirstByte waits for the first byte, so that a connection that sends none holds up no other.
func (l *listener) awaitFirstByte(c net.Conn) {
	r := bufio.NewReader(c)
	first, err := r.Peek(1)
	if err != nil {
		c.Close()
		return
	}
	out := &conn{Conn: c, read: r.Read, local: arrival{Addr: c.LocalAddr(), encrypted: first[0] == tlsHandshake}}
	if out.local.encrypted {
		inner := tls.Server(&conn{Conn: c, read: r.Read}, l.config)
		out.Conn, out.read = inner, inner.Read
	}
	select {
	case l.ready <- out:
	case <-l.closed:
		c.Close()
	}
}

// Accept returns the next connection that has sent data.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn is a connection whose first bytes were inspected. It hides a *tls.Conn from servers, which
// would handle it specially, and stores its metadata in its local address, which is all that
// servers pass on.
type conn struct {
	net.Conn
	read  func([]byte) (int, error)
	local arrival
}

func (c *conn) Read(p []byte) (int, error) { return c.read(p) }
func (c *conn) LocalAddr() net.Addr        { return c.local }

// arrival is the local address of a connection, and whether it uses TLS.
type arrival struct {
	net.Addr
	encrypted bool
}
