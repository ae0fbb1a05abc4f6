package mesh

import "strings"

// Protocol is what a service port speaks.
type Protocol string

// The protocols of Istio's protocol selection.
const (
	// Auto is a port whose protocol was not declared: proxies detect HTTP and treat the rest as TCP.
	Auto    Protocol = ""
	HTTP    Protocol = "HTTP"
	HTTP2   Protocol = "HTTP2"
	GRPC    Protocol = "GRPC"
	GRPCWeb Protocol = "GRPC-Web"
	HTTPS   Protocol = "HTTPS"
	TCP     Protocol = "TCP"
	TLS     Protocol = "TLS"
	UDP     Protocol = "UDP"
	Mongo   Protocol = "Mongo"
	MySQL   Protocol = "MySQL"
	Redis   Protocol = "Redis"
	// Unsupported is a protocol that cannot be captured (SCTP).
	Unsupported Protocol = "Unsupported"
)

// ParseProtocol reads a protocol's name in any case, as appProtocol, a port name's prefix or a ServiceEntry has it.
// An unknown name gives Auto and false.
func ParseProtocol(name string) (Protocol, bool) {
	switch strings.ToLower(name) {
	case "http":
		return HTTP, true
	case "http2", "kubernetes.io/h2c":
		return HTTP2, true
	case "grpc":
		return GRPC, true
	case "grpc-web":
		return GRPCWeb, true
	case "https":
		return HTTPS, true
	case "tcp":
		return TCP, true
	case "tls":
		return TLS, true
	case "udp":
		return UDP, true
	case "mongo":
		return Mongo, true
	case "mysql":
		return MySQL, true
	case "redis":
		return Redis, true
	default:
		return Auto, false
	}
}

// IsHTTP says that proxies read requests on such a port.
func (p Protocol) IsHTTP() bool { return p == HTTP || p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsHTTP2 says that upstream connections are to speak HTTP/2.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsTLS says that the bytes are TLS that the application itself began: routed by SNI, never read.
func (p Protocol) IsTLS() bool { return p == HTTPS || p == TLS }

// Captured says that proxies handle such a port at all: UDP and SCTP pass by.
func (p Protocol) Captured() bool { return p != UDP && p != Unsupported }
