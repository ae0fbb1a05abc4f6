package authenticate

import "net/http"

// RequestFromHTTP returns the Request of an HTTP call.
func RequestFromHTTP(r *http.Request) Request {
	return Request{Peer: parseAddress(r.RemoteAddr), TLS: r.TLS, Header: r.Header.Values}
}
