package certificate

// HTTPVersion is how a cluster chooses the HTTP version of upstream requests.
type HTTPVersion int

// The choices, as in Envoy's HttpProtocolOptions.
const (
	// HTTP1 always uses HTTP/1.1, HTTP2 always HTTP/2.
	HTTP1 HTTPVersion = iota
	HTTP2
	// FollowClient uses the version of the downstream request.
	FollowClient
	// Negotiated uses the version that client and server agree on by ALPN.
	Negotiated
)

// ProtocolNames returns the ALPN names that a proxy offers to another proxy for requests. The names
// that begin with "istio" select the server's filter chain; its codec knows none of them as a
// protocol. The others are for servers without a proxy.
//
// A real protocol name must match the cluster's HTTP version, because the server agrees on it and
// then parses nothing else. Negotiated offers both, "h2" first. With FollowClient no real name is
// offered, so nothing is agreed on and the server detects the version from the first bytes.
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
