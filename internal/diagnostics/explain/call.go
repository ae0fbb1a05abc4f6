package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Direction is the way in which a connection reaches the proxy.
type Direction string

// The directions of a call.
const (
	// Outbound is a captured connection from the proxy's own workload.
	Outbound Direction = "outbound"
	// Inbound is a captured connection to the proxy's workload.
	Inbound Direction = "inbound"
	// Direct is a connection to an address at which the proxy itself listens, without capture.
	Direct Direction = "direct"
)

// Carried is the protocol of the client's first bytes.
type Carried string

// The protocols of a connection.
const (
	HTTP1   Carried = "http/1.1"
	HTTP10  Carried = "http/1.0"
	HTTP2   Carried = "h2c" // HTTP/2 with prior knowledge
	TLS     Carried = "tls"
	Bytes   Carried = "bytes" // no protocol that listener filters detect
	Silence Carried = "silence"
)

// Call describes a call from the client's point of view.
type Call struct {
	Direction Direction `json:"direction"`
	// To is the address to which the client connects.
	To netip.AddrPort `json:"to"`
	// Socket is the path of a Unix domain socket. It replaces To for Direct calls.
	Socket string `json:"socket,omitempty"`
	// From is the client's address, for rules that match it. The zero value matches no range.
	From netip.AddrPort `json:"from,omitzero"`
	// Carries is the protocol of the first bytes. The default is HTTP/1.1 if Request is set, and
	// Bytes otherwise. With TLS, a Request is encrypted: only a proxy that terminates TLS reads it.
	Carries Carried `json:"carries,omitempty"`
	// ServerName and ALPN are the values in the TLS handshake.
	ServerName string   `json:"serverName,omitempty"`
	ALPN       []string `json:"alpn,omitempty"`
	// Certificate reports whether the client presents a certificate that the proxy trusts.
	Certificate bool `json:"certificate,omitempty"`
	// Identity is the SPIFFE ID in that certificate: "spiffe://cluster.local/ns/shop/sa/web".
	Identity string `json:"identity,omitempty"`
	// Claims are the claims of a token that is assumed to be valid: "groups", ["a", "b"]. If nil,
	// only the tokens in the Request are used.
	Claims map[string]any `json:"claims,omitempty"`
	// At is the time of the call, which is compared with the lifetimes of tokens. If zero,
	// lifetimes are not checked.
	At time.Time `json:"at,omitzero"`
	// Authorizers is the assumed answer of all external authorizers.
	Authorizers Answer `json:"authorizers,omitempty"`
	// Request is the HTTP request; nil if the call carries no HTTP.
	Request *Request `json:"request,omitempty"`
}

// carriedProtocol returns the protocol of the first bytes: c.Carries, by default HTTP1 if the call
// has a request, else Bytes.
func (c *Call) carriedProtocol() Carried {
	switch {
	case c.Carries != "":
		return c.Carries
	case c.Request != nil:
		return HTTP1
	default:
		return Bytes
	}
}

// httpVersion returns the HTTP version of the call. Over TLS it is HTTP/2 if ALPN contains "h2",
// and otherwise HTTP/1.1. Without TLS it is carriedProtocol.
func (c *Call) httpVersion() Carried {
	switch {
	case c.carriedProtocol() != TLS:
		return c.carriedProtocol()
	case slices.Contains(c.ALPN, "h2"): // a proxy that terminates TLS prefers it
		return HTTP2
	default:
		return HTTP1
	}
}

// Request is an HTTP request, without its body.
type Request struct {
	Method string `json:"method"`
	// Scheme defaults to "http".
	Scheme string `json:"scheme,omitempty"`
	// Authority is the Host header, or the host of an absolute URL.
	Authority string `json:"authority"`
	// Path includes the query: "/a?b=c".
	Path   string   `json:"path"`
	Header []Header `json:"header,omitempty"`
}

// ParseRequest parses a request in the form "GET http://reviews:9080/path?q=1" and header lines in
// the form "name: value". Header names become lower case, and a Host header sets Authority. The
// path defaults to "/". It fails if the line has no method, the URL no scheme, or a header line no
// colon.
func ParseRequest(line string, headers ...string) (*Request, error) {
	method, url, ok := strings.Cut(strings.TrimSpace(line), " ")
	if !ok {
		return nil, fmt.Errorf("reading request %q: want METHOD URL", line)
	}
	scheme, rest, ok := strings.Cut(strings.TrimSpace(url), "://")
	if !ok {
		return nil, fmt.Errorf("reading request %q: the URL has no scheme", line)
	}
	r := &Request{Method: method, Scheme: scheme, Path: "/"}
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		r.Authority, r.Path = rest[:i], rest[i:]
		if r.Path[0] == '?' {
			r.Path = "/" + r.Path
		}
	} else {
		r.Authority = rest
	}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, fmt.Errorf("reading header %q: want NAME: VALUE", h)
		}
		if strings.EqualFold(name, "host") {
			r.Authority = strings.TrimSpace(value)
			continue
		}
		r.Header = append(r.Header, Header{strings.ToLower(name), strings.TrimSpace(value)})
	}
	return r, nil
}

// clone returns a copy of r with its own list of headers.
func (r *Request) clone() *Request {
	c := *r
	c.Header = append([]Header(nil), r.Header...)
	return &c
}

// Values returns all values of a header, or the value of a pseudo header; "host" is the authority.
// It returns nil for a missing header. "host" and the names of pseudo headers must be in lower
// case; names of headers may be in any.
func (r *Request) Values(name string) []string {
	switch name {
	case ":method":
		return []string{r.Method}
	case ":authority", "host":
		return []string{r.Authority}
	case ":scheme":
		return []string{r.Scheme}
	case ":path":
		return []string{r.Path}
	}
	var values []string
	for _, h := range r.Header {
		if strings.EqualFold(h.Name, name) {
			values = append(values, h.Value)
		}
	}
	return values
}

// headerValue returns a header as matchers see it, with several lines joined by commas, and whether
// the request has it. name may be in any case.
func (r *Request) headerValue(name string) (string, bool) {
	values := r.Values(strings.ToLower(name))
	return strings.Join(values, ","), len(values) > 0
}

// splitPath returns the path without the query, and the query without its question mark.
func (r *Request) splitPath() (path, query string) {
	path, query, _ = strings.Cut(r.Path, "?")
	return path, query
}

// isGRPC reports whether the content type is application/grpc, possibly with a subtype ("+proto")
// or parameters, in lower case.
func (r *Request) isGRPC() bool {
	t, _ := r.headerValue("content-type")
	return t == "application/grpc" || strings.HasPrefix(t, "application/grpc+") ||
		strings.HasPrefix(t, "application/grpc;")
}
