package certificate

// HTTPVersion is how a cluster chooses the version of HTTP of its requests.
type HTTPVersion int

// The ways to choose, as Envoy's HttpProtocolOptions has them.
const (
	// HTTP1 is HTTP/1.1 always, HTTP2 is HTTP/2 always.
	HTTP1 HTTPVersion = iota
	HTTP2
	// FollowClient is the version of the client's request.
	FollowClient
	// Negotiated is what client and server agree on by ALPN.
	Negotiated
)

// ProtocolNames returns the ALPN names that a proxy offers to another proxy for requests. The names that begin with "istio" select
// the filter chain of the server, which knows none of them as a protocol. The others are for servers without a proxy.
//
// A real name must be what the cluster speaks: the server agrees on it, and then parses nothing else. With FollowClient no
// real name is offered, so that nothing is agreed on and the server detects the version from the first bytes.
func ProtocolNames(v HTTPVersion) []string {
	switch v {
	case HTTP2:
		return []string{"istio-h2", "istio", "h2"}
	case FollowClient:
		return []string{"istio-http/1.1", "istio"}
	case Negotiated:
		return []string{"istio-http/1.1", "istio", "h2", "http/1.1"}
	default:
		return []string{"istio-http/1.1", "istio", "http/1.1"}
	}
}
