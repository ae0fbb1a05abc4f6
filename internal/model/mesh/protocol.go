package mesh

import "strings"

// Protocol is the application protocol of a service port.
type Protocol string

// The protocols of Istio's protocol selection.
const (
	// Auto is an undeclared protocol: proxies detect HTTP and treat everything else as TCP.
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

// ParseProtocol parses the name of a protocol in any case, as in appProtocol, a port name's prefix
// or a ServiceEntry. These are the names of all Protocols but Auto and Unsupported, and
// kubernetes.io/h2c for HTTP2. It returns Auto and false for a name that it does not know, such as
// "sctp".
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

// IsHTTP reports whether proxies parse requests on such a port: HTTP, HTTP2, GRPC and GRPCWeb, but
// not HTTPS or Auto.
func (p Protocol) IsHTTP() bool { return p == HTTP || p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsHTTP2 reports whether upstream connections use HTTP/2: HTTP2, GRPC and GRPCWeb.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsTLS reports whether the application itself originates TLS (HTTPS, TLS), so that proxies route
// by SNI and do not read the content.
func (p Protocol) IsTLS() bool { return p == HTTPS || p == TLS }

// Captured reports whether proxies handle such a port. UDP and SCTP bypass them.
func (p Protocol) Captured() bool { return p != UDP && p != Unsupported }
