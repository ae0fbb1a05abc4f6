package debug

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
)

// Caller identifies the sender of a request for a page.
type Caller struct {
	// Namespace limits the caller to pages with the audience owners, and on them to the proxies of
	// this namespace. If empty, the caller can read everything: requests over the loopback
	// interface, and identities of the system namespaces.
	Namespace string
}

// audience is the set of callers that may read a page. The zero value admits no caller, so that a
// line of the table without an audience does not expose its page.
type audience int

const (
	// operators admits only callers without a namespace limit: requests over the loopback interface
	// and identities of the system namespaces.
	operators audience = iota + 1
	// owners also admits workloads, for proxies of their own namespace.
	owners
)

// includes reports whether the audience includes the caller: operators are callers without a
// namespace, and owners are all callers.
func (a audience) includes(c Caller) bool {
	return a == operators && c.Namespace == "" || a == owners
}

// CanRead reports whether the caller may read the state of proxies in the namespace. A caller
// without a namespace may read all.
func (c Caller) CanRead(namespace string) bool { return c.Namespace == "" || c.Namespace == namespace }

// Access controls who may read the pages over a network. Requests over the loopback interface can
// read all pages, because they need access to the machine or the right to forward one of its ports.
type Access struct {
	// Authenticate returns the namespace of the identity that sent the request, from its
	// certificate or token. If nil, all requests that are not over the loopback interface are
	// refused.
	Authenticate func(*http.Request) (namespace string, err error)
	// SystemNamespaces are the namespaces whose identities can read everything: the control plane's
	// own and those in DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES.
	SystemNamespaces []string
	// AnyNamespace lets every authenticated identity read everything
	// (ENABLE_DEBUG_ENDPOINT_AUTH=false).
	AnyNamespace bool
}

// CallerOf returns the sender of a request. Over loopback it has no namespace limit; otherwise it
// is Identity of the namespace that Authenticate returns. refused is 0, or the HTTP status to
// refuse the request with; c must not be used then. It is 403 for a loopback request whose Host
// header is not local. It is 401 for another request if Authenticate is nil, fails or returns no
// namespace, but 503 if its error wraps authenticate.ErrUnavailable: the same credentials may be
// accepted later.
func (a Access) CallerOf(r *http.Request) (c Caller, refused int) {
	if isLoopback(r.RemoteAddr) {
		if !isLocalHost(r.Host) {
			return c, http.StatusForbidden
		}
		return c, 0
	}
	if a.Authenticate == nil {
		return c, http.StatusUnauthorized
	}
	namespace, err := a.Authenticate(r)
	switch {
	case errors.Is(err, authenticate.ErrUnavailable):
		return c, http.StatusServiceUnavailable
	case err != nil, namespace == "":
		return c, http.StatusUnauthorized
	}
	return a.Identity(namespace), 0
}

// Identity returns the Caller for an authenticated identity of the namespace, which must not be
// empty. The Caller has no namespace limit if AnyNamespace is set or the namespace is a system
// namespace.
func (a Access) Identity(namespace string) Caller {
	if a.AnyNamespace || slices.Contains(a.SystemNamespaces, namespace) {
		return Caller{}
	}
	return Caller{Namespace: namespace}
}

// isLoopback reports whether address is "IP:port" with a loopback IP. It returns false for host
// names.
func isLoopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// isLocalHost reports whether a Host header is empty, "localhost" or an IP address, with or without
// a port. It is the defense against DNS rebinding: a foreign site whose name resolves to 127.0.0.1
// sends its own name as the Host header.
func isLocalHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" || host == "" {
		return true
	}
	_, err := netip.ParseAddr(trimBrackets(host))
	return err == nil
}

// trimBrackets returns the host without the brackets around an IPv6 address, and any other host
// unchanged.
func trimBrackets(host string) string {
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}
