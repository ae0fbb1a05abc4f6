package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Direction says how a connection got to the proxy.
type Direction string

// The directions.
const (
	// Outbound: the workload's own connection, captured.
	Outbound Direction = "outbound"
	// Inbound: a connection to the workload, captured.
	Inbound Direction = "inbound"
	// Direct: a connection to an address that the proxy itself listens at.
	Direct Direction = "direct"
)

// Carried says what the client's first bytes are.
type Carried string

// What connections carry.
const (
	HTTP1   Carried = "http/1.1"
	HTTP10  Carried = "http/1.0"
	HTTP2   Carried = "h2c" // HTTP/2 with prior knowledge
	TLS     Carried = "tls"
	Bytes   Carried = "bytes" // nothing that anybody knows
	Silence Carried = "silence"
)

// Call is a call as a client makes it.
type Call struct {
	Direction Direction `json:"direction"`
	// To is where the client connects.
	To netip.AddrPort `json:"to"`
	// Socket is the path of a Unix domain socket, in place of To (Direct).
	Socket string `json:"socket,omitempty"`
	// From is the client's address, where that may count. The zero value matches no range.
	From netip.AddrPort `json:"from,omitzero"`
	// Carries says what the first bytes are. "" means HTTP/1.1 if there is a Request, and bytes otherwise. With TLS a Request is
	// inside of it: only a proxy that ends the TLS reads it.
	Carries Carried `json:"carries,omitempty"`
	// ServerName and ALPN are of the TLS handshake.
	ServerName string   `json:"serverName,omitempty"`
	ALPN       []string `json:"alpn,omitempty"`
	// Certificate says that the client has one that the proxy believes.
	Certificate bool `json:"certificate,omitempty"`
	// Identity is who the client is by that certificate: "spiffe://cluster.local/ns/shop/sa/web".
	Identity string `json:"identity,omitempty"`
	// Claims are those of a token that is taken for valid: "groups", ["a", "b"]. nil: what tokens there are is in the Request.
	Claims map[string]any `json:"claims,omitempty"`
	// At is when the call is made, by which tokens are valid or not. The zero value: their times are not looked at.
	At time.Time `json:"at,omitzero"`
	// Authorizers says what external authorizers answer that are asked about the call.
	Authorizers Answer `json:"authorizers,omitempty"`
	// Request is what is sent, if it is HTTP.
	Request *Request `json:"request,omitempty"`
}

// carries gives what the first bytes are.
func (c *Call) carries() Carried {
	switch {
	case c.Carries != "":
		return c.Carries
	case c.Request != nil:
		return HTTP1
	default:
		return Bytes
	}
}

// spoken gives the HTTP that is spoken, inside of TLS too, where ALPN says so.
func (c *Call) spoken() Carried {
	switch {
	case c.carries() != TLS:
		return c.carries()
	case slices.Contains(c.ALPN, "h2"): // a proxy that ends TLS prefers it
		return HTTP2
	default:
		return HTTP1
	}
}

// Request is an HTTP request.
type Request struct {
	Method string `json:"method"`
	// Scheme is "http" where the client says nothing.
	Scheme string `json:"scheme,omitempty"`
	// Authority is the Host header, or the host of an absolute URL.
	Authority string `json:"authority"`
	// Path is with the query: "/a?b=c".
	Path   string   `json:"path"`
	Header []Header `json:"header,omitempty"`
}

// ParseRequest reads a request as people write it: "GET http://reviews:9080/path?q=1", then header lines "name: value".
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

// clone gives a request that can be changed.
func (r *Request) clone() *Request {
	c := *r
	c.Header = append([]Header(nil), r.Header...)
	return &c
}

// Values gives all values of a header, pseudo headers included. Names are in lower case.
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

// value gives a header as matchers see it: several lines joined by commas.
func (r *Request) value(name string) (string, bool) {
	values := r.Values(strings.ToLower(name))
	return strings.Join(values, ","), len(values) > 0
}

// path gives the path without the query, and the query.
func (r *Request) path() (path, query string) {
	path, query, _ = strings.Cut(r.Path, "?")
	return path, query
}

// grpc says whether it is a gRPC request, by its content type.
func (r *Request) grpc() bool {
	t, _ := r.value("content-type")
	return t == "application/grpc" || strings.HasPrefix(t, "application/grpc+") || strings.HasPrefix(t, "application/grpc;")
}
