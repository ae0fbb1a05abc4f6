package echo

import (
	"context"
	"net"
)

// Kind is a way to send requests.
type Kind string

// The ways that a change of configuration may hurt each in its own.
const (
	HTTP       Kind = "http/1.1"       // on a kept-alive connection
	HTTPClose  Kind = "http/1.1 close" // each on a connection of its own
	HTTP2      Kind = "http/2"         // h2c with prior knowledge
	GRPC       Kind = "grpc"           // unary
	GRPCStream Kind = "grpc stream"    // messages on one long stream
	GRPCOpen   Kind = "grpc open"      // each on a stream of its own, all on one connection
	TCP        Kind = "tcp stream"     // lines on one long connection
	TCPOpen    Kind = "tcp open"       // each on a connection of its own
)

// Kinds lists all of them.
func Kinds() []Kind {
	return []Kind{HTTP, HTTPClose, HTTP2, GRPC, GRPCStream, GRPCOpen, TCP, TCPOpen}
}

// Long reports whether requests of the kind reuse an earlier connection, so that they reach the
// same server.
func (k Kind) Long() bool { return k == GRPCStream || k == TCP }

// Dial connects, as of net.Dialer.DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Caller sends requests of one kind, one at a time, over connections of its own. After an error the
// next call starts afresh.
type Caller interface {
	// Call sends a request and reads its reply. An id has no blanks.
	Call(ctx context.Context, id string) (Reply, error)
	Close()
}

// NewCaller makes a caller of a host, by the ports of its service.
func NewCaller(kind Kind, dial Dial, host string, ports Ports) Caller {
	switch kind {
	case HTTP, HTTPClose:
		return newHTTPCaller(kind, dial, host, ports.HTTP)
	case HTTP2:
		return newHTTPCaller(kind, dial, host, ports.HTTP2)
	case GRPC, GRPCStream, GRPCOpen:
		return newGRPCCaller(kind, dial, host, ports.GRPC)
	default:
		return newTCPCaller(kind, dial, host, ports.TCP)
	}
}
