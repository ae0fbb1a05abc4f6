package debug

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
)

// Caller is who asks for a page.
type Caller struct {
	// Namespace limits what is shown: only pages that workloads may see, and of those only the proxies of this namespace.
	// "" sees everything: the machine itself, and identities of the system namespace.
	Namespace string
}

// audience is who may see a page. The zero value is nobody, so a line of the table that forgets it does not open a page.
type audience int

const (
	// operators: the loopback interface and identities of the system namespace.
	operators audience = iota + 1
	// owners: besides, workloads about proxies of their own namespace.
	owners
)

func (a audience) admits(c Caller) bool {
	return a == operators && c.Namespace == "" || a == owners
}

// sees says whether the caller may be shown something of a proxy's.
func (c Caller) sees(namespace string) bool { return c.Namespace == "" || c.Namespace == namespace }

// Access is who may read the pages over a network. Whoever asks over the loopback interface may read all of them: it takes
// a place on the machine, or the right to forward a port of it.
type Access struct {
	// Authenticate gives the namespace of whoever sent the request, by a certificate or token. nil: nobody has an identity.
	Authenticate func(*http.Request) (namespace string, err error)
	// SystemNamespaces are those whose identities see everything: the control plane's own
	// (and DEBUG_ENDPOINT_AUTH_ALLOWED_NAMESPACES).
	SystemNamespaces []string
	// AnyNamespace lets every identity see everything (ENABLE_DEBUG_ENDPOINT_AUTH=false).
	AnyNamespace bool
}

// caller says who sent a request. refused is the HTTP status if that is nobody who may ask at all.
func (a Access) caller(r *http.Request) (c Caller, refused int) {
	if loopback(r.RemoteAddr) {
		if !local(r.Host) {
			return c, http.StatusForbidden
		}
		return c, 0
	}
	if a.Authenticate == nil {
		return c, http.StatusUnauthorized
	}
	namespace, err := a.Authenticate(r)
	if err != nil || namespace == "" {
		return c, http.StatusUnauthorized
	}
	return a.Identity(namespace), 0
}

// Identity is the caller that an authenticated identity of a namespace is. The namespace must not be empty.
func (a Access) Identity(namespace string) Caller {
	if a.AnyNamespace || slices.Contains(a.SystemNamespaces, namespace) {
		return Caller{}
	}
	return Caller{Namespace: namespace}
}

func loopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Unmap().IsLoopback()
}

// local says whether a Host header is one that a person or script on the machine would use. A page of a foreign site that
// made its name resolve to 127.0.0.1 (DNS rebinding) sends its own.
func local(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" || host == "" {
		return true
	}
	_, err := netip.ParseAddr(trimBrackets(host))
	return err == nil
}

func trimBrackets(host string) string {
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}
