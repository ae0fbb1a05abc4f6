package echo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// Ports are where a server listens.
type Ports struct{ HTTP, HTTP2, GRPC, TCP int }

// idHeader carries the id of an HTTP request or a gRPC call.
const idHeader = "x-loss-id"

// Options describe a server.
type Options struct {
	Listen Listen
	// Version is its reported version.
	Version string
	// Ports are where it listens, on every address.
	Ports []Ports
	// Delay is how long it takes over a reply.
	Delay time.Duration
}

// Server is one version of the service at one node, on all ports, until Close.
type Server struct {
	options Options
	http    *http.Server
	grpc    *grpc.Server
	ends    []io.Closer
	closed  chan struct{}
	once    sync.Once

	mu      sync.Mutex
	streams map[net.Conn]struct{} // open TCP connections
	running sync.WaitGroup
}

// Listen announces on an address, as of net.Listen.
type Listen func(network, address string) (net.Listener, error)

// NewServer starts a server.
func NewServer(o Options) (*Server, error) {
	config := serverTLS()
	s := &Server{options: o, streams: map[net.Conn]struct{}{}, closed: make(chan struct{})}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // over TLS too, see conn
	s.http = &http.Server{Handler: http.HandlerFunc(s.serveHTTP), Protocols: protocols}
	s.grpc = grpc.NewServer()
	s.grpc.RegisterService(&service, s)
	for _, ports := range o.Ports {
		for port, serve := range map[int]func(net.Listener){
			ports.HTTP:  func(l net.Listener) { _ = s.http.Serve(l) },
			ports.HTTP2: func(l net.Listener) { _ = s.http.Serve(l) },
			ports.GRPC:  func(l net.Listener) { _ = s.grpc.Serve(l) },
			ports.TCP:   s.serveTCP,
		} {
			l, err := o.Listen("tcp", fmt.Sprintf(":%d", port))
			if err != nil {
				return nil, errors.Join(fmt.Errorf("starting server %s: %w", o.Version, err), s.Close())
			}
			either := newListener(l, config)
			s.ends = append(s.ends, either)
			s.running.Go(func() { serve(either) })
		}
	}
	return s, nil
}

// Close ends the server and its connections at once.
func (s *Server) Close() error {
	s.once.Do(func() { close(s.closed) })
	err := s.http.Close()
	s.grpc.Stop()
	for _, e := range s.ends {
		e.Close() // most are closed by now
	}
	s.mu.Lock()
	for c := range s.streams {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
	return err
}

// replyTo returns, after the server's delay, the reply to a request on a connection with that local
// address.
func (s *Server) replyTo(local net.Addr, id string) string {
	if s.options.Delay > 0 {
		select {
		case <-time.After(s.options.Delay):
		case <-s.closed:
		}
	}
	return replyOver(local, id, s.options.Version).encodeText()
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	_, _ = io.WriteString(w, s.replyTo(local, r.Header.Get(idHeader))) // the client sees it
}

func (s *Server) serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.streams[c] = struct{}{}
		s.mu.Unlock()
		s.running.Go(func() { s.serveLines(c) })
	}
}

// serveLines answers each line, an id, with a line.
func (s *Server) serveLines(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.streams, c)
		s.mu.Unlock()
	}()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		id := strings.TrimSpace(lines.Text())
		if _, err := io.WriteString(c, s.replyTo(c.LocalAddr(), id)+"\n"); err != nil {
			return
		}
	}
}
