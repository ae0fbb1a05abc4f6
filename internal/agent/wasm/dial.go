package wasm

import (
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
)

// dialTimeout bounds connecting to a server of modules.
const dialTimeout = 10 * time.Second

// guardedDialer returns a copy of base, with dialTimeout, that refuses the addresses forbidden for
// all fetches (package fetch): link-local addresses, metadata servers and their IPv6 forms. It
// checks the address of the connection itself, after name resolution, so that neither DNS rebinding
// nor a redirect circumvents it. Loopback is allowed, because it belongs to the pod; base.Control
// is called last.
func guardedDialer(base *net.Dialer) *net.Dialer {
	d := *base
	d.Timeout = dialTimeout
	next := base.Control
	allowed := fetch.Options{Loopback: true}
	d.Control = func(network, address string, c syscall.RawConn) error {
		if err := allowed.Check(address); err != nil {
			return fmt.Errorf("connect to Wasm module server: %w", err)
		}
		if next != nil {
			return next(network, address, c)
		}
		return nil
	}
	return &d
}

// newTransport returns an HTTP transport for module servers, which connects by guardedDialer. It
// ignores the environment's proxies, which are for the application.
func newTransport(d *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext: guardedDialer(d).DialContext, Proxy: nil,
		TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: time.Minute,
		ForceAttemptHTTP2: true, MaxIdleConns: 4, IdleConnTimeout: 10 * time.Second,
	}
}
