package backend

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// peeked is a connection whose first bytes were inspected. It stores its metadata in its local
// address, because an HTTP server passes only that on.
type peeked struct {
	net.Conn
	in         *bufio.Reader
	encrypted  bool
	serverName string
}

func (c *peeked) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *peeked) LocalAddr() net.Addr { return arrival{c.Conn.LocalAddr(), c.encrypted, c.serverName} }

// arrival is the local address of a connection, and how it arrived.
type arrival struct {
	net.Addr
	encrypted  bool
	serverName string
}

// handOver is a listener that returns the connections that it was handed.
type handOver struct {
	address net.Addr
	ready   chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newHandOver(a net.Addr) *handOver {
	return &handOver{address: a, ready: make(chan net.Conn), closed: make(chan struct{})}
}

// handConnection hands a connection over, and reports whether it was accepted.
func (h *handOver) handConnection(c net.Conn) bool {
	select {
	case h.ready <- c:
		return true
	case <-h.closed:
		return false
	}
}

// Accept returns the next connection.
func (h *handOver) Accept() (net.Conn, error) {
	select {
	case c := <-h.ready:
		return c, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close ends it.
func (h *handOver) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr is that of the real listener.
func (h *handOver) Addr() net.Addr { return h.address }

// serverTLS returns the server's TLS configuration, with a self-signed certificate.
func serverTLS() *tls.Config {
	own := pki.SelfSigned(&x509.Certificate{DNSNames: []string{"backend"}})
	return &tls.Config{Certificates: []tls.Certificate{own.TLS()}, NextProtos: []string{"h2", "http/1.1"}}
}
