package certificate

// Envoy configures the ALPN names of a cluster, not of a request. So connection managers set a
// filter state on the requests that they forward. Clusters that carry both requests and raw
// connections select the transport socket to another proxy by it.
const (
	// RequestKey is the name of that filter state, which is shared with the upstream connection.
	RequestKey = "meshpilot.request"
	// IsRequest is its value on requests.
	IsRequest = "http"
)
