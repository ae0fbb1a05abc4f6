package explain

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Question is a call as a user describes it. ParseCall turns it into a Call.
type Question struct {
	// URL is "http://host:9080/path?query", "tcp://host:port" or "tls://server-name:port".
	URL string
	// Method is the HTTP method (default GET). Headers are header lines, "name: value".
	Method  string
	Headers []string
	// Protocol is the protocol of the client's first bytes (see Carried). If empty, it follows from
	// the URL. It is ignored for https and tls.
	Protocol string
	// To is the destination "address:port". If empty, Site.Resolve determines the address.
	To string
	// Inbound makes it a call to the proxy's workload.
	Inbound bool
	// Principal is the identity of the caller (see Call.SetIdentity), From its IP address.
	Principal string
	From      string
	// Claims are claims of a token that is assumed to be valid: "groups=a,b".
	Claims []string
	// Authorizer is the answer of external authorizers.
	Authorizer string
}

// Site is what ParseCall needs to know of a proxy besides its resources.
type Site struct {
	// IsRouter is set for gateways, at which calls are Direct.
	IsRouter bool
	// TrustDomain completes principals without one.
	TrustDomain string
	// Now is the time of the call; zero does not check lifetimes of tokens.
	Now time.Time
	// Resolve returns the address to which the proxy's applications connect for a host and port.
	Resolve func(host string, port uint16) netip.Addr
	// OwnPort returns the workload's own address and the target port of a service port.
	OwnPort func(host string, port uint16) netip.AddrPort
}

// Host returns the host of the URL, without port or brackets.
func (q Question) Host() string {
	_, rest, _ := strings.Cut(q.URL, "://")
	return HostOf(authorityOf(rest))
}

// ParseCall returns the call of a question, Direct at a gateway, otherwise Inbound if q.Inbound or
// q.Principal is set, otherwise Outbound. An inbound call without q.To goes to the proxy's own
// address (at.OwnPort). The scheme is http, https, tls or tcp, in lower case; the default method is
// GET. It returns an error if the URL has another scheme or is tcp without a port, or if another
// field is malformed.
func ParseCall(q Question, at Site) (Call, error) {
	call := Call{Direction: Outbound, Carries: Carried(q.Protocol), At: at.Now}
	if q.Inbound {
		call.Direction = Inbound
	}
	if at.IsRouter {
		call.Direction = Direct
	}
	scheme, rest, ok := strings.Cut(q.URL, "://")
	if !ok {
		return call, fmt.Errorf(
			"no call is given: ?url=http://host:port/path, tcp://host:port or tls://server-name:port",
		)
	}
	authority := authorityOf(rest)
	switch scheme {
	case "http", "https":
		method := q.Method
		if method == "" {
			method = http.MethodGet
		}
		var err error
		if call.Request, err = ParseRequest(method+" "+q.URL, q.Headers...); err != nil {
			return call, err
		}
		if scheme == "https" { // only a proxy that terminates TLS can see the request
			call.Carries, call.ServerName = TLS, HostOf(authority)
		}
	case "tls":
		call.Carries, call.ServerName = TLS, HostOf(authority)
	case "tcp":
	default:
		return call, fmt.Errorf("calls of %s:// are not known here: http, https, tcp or tls", scheme)
	}
	if err := call.setCaller(q, at.TrustDomain); err != nil {
		return call, err
	}
	var err error
	call.To, err = q.destination(scheme, authority, at)
	if call.Direction == Inbound && q.To == "" && err == nil {
		call.To = at.OwnPort(HostOf(authority), call.To.Port())
	}
	return call, err
}

// destination returns the address and port that the client connects to: q.To if set, otherwise the
// host in authority, resolved by at.Resolve unless it is an IP address. The default port is 80 for
// http, and 443 for https and tls. It returns an error if q.To or the port is malformed, or if a
// tcp URL has no port.
func (q Question) destination(scheme, authority string, at Site) (netip.AddrPort, error) {
	if q.To != "" {
		return netip.ParseAddrPort(q.To)
	}
	port := map[string]string{"http": "80", "https": "443", "tls": "443"}[scheme]
	if _, given, err := net.SplitHostPort(authority); err == nil {
		port = given
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%s://%s has no port", scheme, authority)
	}
	host := HostOf(authority)
	if a, err := netip.ParseAddr(host); err == nil {
		return netip.AddrPortFrom(a, uint16(number)), nil
	}
	return netip.AddrPortFrom(at.Resolve(host, uint16(number)), uint16(number)), nil
}

// authorityOf returns the host and port of a URL without its scheme.
func authorityOf(url string) string {
	authority, _, _ := strings.Cut(url, "/")
	authority, _, _ = strings.Cut(authority, "?")
	return authority
}

// HostOf returns the host of an authority, without port or brackets.
func HostOf(authority string) string {
	if h, _, err := net.SplitHostPort(authority); err == nil {
		return h
	}
	return strings.Trim(authority, "[]")
}

// setCaller sets the fields of c that describe the caller, and the assumed answer of authorizers. A
// q.Principal without a trust domain belongs to trustDomain. For an empty From, Claims or Principal
// of q the fields of c keep their values. It returns an error if the address, a claim or the answer
// is malformed.
func (c *Call) setCaller(q Question, trustDomain string) error {
	c.Authorizers = Answer(q.Authorizer)
	switch c.Authorizers {
	case "", Allows, Denies, Fails:
	default:
		return fmt.Errorf("reading authorizer %q: want %s, %s or %s", c.Authorizers, Allows, Denies, Fails)
	}
	if q.From != "" {
		a, err := netip.ParseAddr(q.From)
		if err != nil {
			return fmt.Errorf("reading the caller's address: %w", err)
		}
		c.From = netip.AddrPortFrom(a.Unmap(), 0)
	}
	for _, text := range q.Claims {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("reading claim %q: want NAME=VALUE or NAME=VALUE,VALUE", text)
		}
		if c.Claims == nil {
			c.Claims = map[string]any{}
		}
		setClaim(c.Claims, strings.Split(name, "."), value)
	}
	if q.Principal != "" {
		c.SetIdentity(q.Principal, trustDomain)
	}
	return nil
}

// setClaim sets the claim at path to value. For the path of "realm.roles" it sets the claim roles
// within the claim realm, which it creates or, if it is no object, replaces. A value with commas
// becomes a list.
func setClaim(claims map[string]any, path []string, value string) {
	for _, name := range path[:len(path)-1] {
		inner, ok := claims[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			claims[name] = inner
		}
		claims = inner
	}
	name := path[len(path)-1]
	values := strings.Split(value, ",")
	if len(values) == 1 {
		claims[name] = value
		return
	}
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	claims[name] = list
}

// SetIdentity makes the call a mutual TLS call by the proxy of a workload with the given identity:
// it sets Identity, ALPN and Carries. The principal is "cluster.local/ns/a/sa/b", with or without
// its scheme, or "a/b" in the given trust domain. An outbound call becomes inbound.
func (c *Call) SetIdentity(principal, trustDomain string) {
	principal = strings.TrimPrefix(principal, "spiffe://")
	if namespace, account, ok := strings.Cut(principal, "/"); ok && !strings.Contains(account, "/") {
		principal = trustDomain + "/ns/" + namespace + "/sa/" + account
	}
	c.Identity = "spiffe://" + principal
	if c.Direction == Outbound {
		c.Direction = Inbound
	}
	switch {
	case c.Request == nil:
		c.ALPN = []string{"istio-peer-exchange", "istio"}
	case c.Carries == HTTP2 || strings.HasPrefix(strings.Join(c.Request.Values("content-type"), ","),
		"application/grpc"):
		c.ALPN = []string{"istio-h2", "istio", "h2"}
	default:
		c.ALPN = []string{"istio-http/1.1", "istio", "http/1.1"}
	}
	c.Carries = TLS
}
