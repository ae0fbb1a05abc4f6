package authenticate

import "net/http"

// FromHTTP gives the request of an HTTP call.
func FromHTTP(r *http.Request) Request {
	return Request{Peer: address(r.RemoteAddr), TLS: r.TLS, Header: r.Header.Values}
}
