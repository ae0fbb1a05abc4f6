package endpointpicker

import (
	"net"
	"sync"
	"testing"

	procv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
)

// Server is an endpoint picker, until the test ends. It reads the whole body of a request before it
// chooses.
type Server struct {
	procv3.UnimplementedExternalProcessorServer
	// Port is where it listens.
	Port int

	mu       sync.Mutex
	endpoint string
	silent   bool
	bodies   []string
}

// Start starts a picker at an address. Port 0 is a free one.
func Start(t testing.TB, address string) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	p := &Server{Port: listener.Addr().(*net.TCPAddr).Port}
	server := grpc.NewServer()
	procv3.RegisterExternalProcessorServer(server, p)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return p
}

// SetEndpoint makes the picker choose an endpoint, IP:PORT, for requests without the header x-pick. If it
// is "", the choice is left to the gateway.
func (p *Server) SetEndpoint(endpoint string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endpoint = endpoint
}

// StopAnswering makes the picker accept requests without an answer from now on.
func (p *Server) StopAnswering() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = true
}

// Bodies returns the number of bodies that the picker has received, and the last one.
func (p *Server) Bodies() (n int, last string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n = len(p.bodies); n > 0 {
		last = p.bodies[n-1]
	}
	return n, last
}

// choose returns the endpoint for a request with these headers.
func (p *Server) choose(h *procv3.HttpHeaders) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pick := headerOf(h, "x-pick"); pick != "" {
		return pick
	}
	return p.endpoint
}

func (p *Server) recordBody(body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bodies = append(p.bodies, body)
}

func (p *Server) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent
}
