package backend

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// IDHeader names requests.
	IDHeader = "X-Case-Id"
	// AnswerHeader selects the answer to a request.
	AnswerHeader = "X-Answer"
	// GreetingPort is the port at which the server sends first.
	GreetingPort = 3306
	// firstBytes is the timeout for the first bytes of a client.
	firstBytes = 20 * time.Second
)

// Listen announces on an address, as of net.Listen.
type Listen func(network, address string) (net.Listener, error)

// Server answers on some ports until Close.
type Server struct {
	memory *Memory
	http   *http.Server
	tls    *tls.Config
	ends   []io.Closer

	mu      sync.Mutex
	open    map[net.Conn]struct{}
	closed  bool
	running sync.WaitGroup
}

// New starts a server on all addresses.
func New(listen Listen, memory *Memory, ports ...uint16) (*Server, error) {
	s := &Server{memory: memory, tls: serverTLS(), open: map[net.Conn]struct{}{}}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{Handler: http.HandlerFunc(s.serveHTTP), Protocols: protocols, ReadHeaderTimeout: firstBytes}
	for _, port := range ports {
		l, err := listen("tcp", ":"+strconv.Itoa(int(port)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listening on port %d: %w", port, err), s.Close())
		}
		web := newHandOver(l.Addr())
		s.ends = append(s.ends, l, web)
		s.running.Go(func() { _ = s.http.Serve(web) })
		s.running.Go(func() { s.acceptConnections(l, web, port == GreetingPort) })
	}
	return s, nil
}

// Close ends the server and all connections at once.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	for _, e := range s.ends {
		e.Close()
	}
	err := s.http.Close()
	s.running.Wait()
	return err
}

// trackConnection registers a connection, so that Close closes it, and reports whether the server
// still runs.
func (s *Server) trackConnection(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false
	}
	s.open[c] = struct{}{}
	return true
}

func (s *Server) forgetConnection(c net.Conn) {
	c.Close()
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
}

func (s *Server) acceptConnections(l net.Listener, web *handOver, greets bool) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		if s.trackConnection(c) {
			s.running.Go(func() { s.detectProtocol(c, web, greets) })
		}
	}
}

// detectProtocol detects the client's protocol from its first bytes.
func (s *Server) detectProtocol(c net.Conn, web *handOver, greets bool) {
	if greets {
		fmt.Fprintf(c, "hello from %s\n", hostOf(c.LocalAddr()))
	}
	_ = c.SetReadDeadline(time.Now().Add(firstBytes))
	in := &peeked{Conn: c, in: bufio.NewReader(c)}
	first, err := in.in.Peek(1)
	if err != nil {
		s.forgetConnection(c)
		return
	}
	if first[0] == tlsHandshake {
		inner := tls.Server(in, s.tls)
		if inner.Handshake() != nil {
			s.forgetConnection(c)
			return
		}
		in = &peeked{
			Conn:       inner,
			in:         bufio.NewReader(inner),
			encrypted:  true,
			serverName: inner.ConnectionState().ServerName,
		}
	}
	start, _ := in.in.Peek(4)
	_ = c.SetReadDeadline(time.Time{})
	if isHTTP(string(start)) && web.handConnection(in) {
		return // the HTTP server closes it
	}
	s.serveLines(in)
	s.forgetConnection(c)
}

// tlsHandshake is the first byte of a TLS connection (RFC 8446, section 5.1: ContentType
// handshake).
const tlsHandshake = 0x16

func isHTTP(start string) bool {
	switch start {
	case "GET ", "PUT ", "POST", "HEAD", "OPTI", "DELE", "PATC", "TRAC", "CONN", "PRI ":
		return true
	}
	return false
}

// serveLines answers each line, an id, with the id and the address that it came to.
func (s *Server) serveLines(c *peeked) {
	for lines := bufio.NewScanner(c.in); lines.Scan(); {
		seen := s.memory.recordSighting(Sighting{
			ID: strings.TrimSpace(
				lines.Text(),
			),
			Instance:   hostOf(c.LocalAddr()),
			Protocol:   "lines",
			TLS:        c.encrypted,
			ServerName: c.serverName,
		})
		text, err := json.Marshal(seen)
		if err != nil {
			return
		}
		if _, err := c.Write(append(text, '\n')); err != nil {
			return
		}
	}
}

func hostOf(a net.Addr) string {
	h, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return strings.TrimPrefix(h, "::ffff:")
}
