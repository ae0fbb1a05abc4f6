package certificate

// Envoy chooses what it offers by ALPN for a cluster, and not for a request. So a connection manager marks what it sends, and
// clusters that carry both requests and raw connections choose by that mark how they call another proxy.
const (
	// RequestKey is the filter state that says so, shared with the upstream connection.
	RequestKey = "meshpilot.request"
	// IsRequest is its value.
	IsRequest = "http"
)
