package wasm

import (
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
)

// dialTimeout bounds connecting to where modules are.
const dialTimeout = 10 * time.Second

// guarded returns a dialer that connects to no address that is forbidden for all fetches (package fetch): of links, of metadata servers,
// and their forms in IPv6. It checks the address that is really connected to, after names were resolved, so that neither a name that
// changes its address nor a redirect leads elsewhere. Loopback is allowed: it is the pod's own.
func guarded(base *net.Dialer) *net.Dialer {
	d := *base
	d.Timeout = dialTimeout
	then := base.Control
	allowed := fetch.Options{Loopback: true}
	d.Control = func(network, address string, c syscall.RawConn) error {
		if err := allowed.Check(address); err != nil {
			return fmt.Errorf("connect to a server of Wasm modules: %w", err)
		}
		if then != nil {
			return then(network, address, c)
		}
		return nil
	}
	return &d
}

// transport reaches where modules are. The environment's proxies are meant for the application.
func transport(d *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext: guarded(d).DialContext, Proxy: nil, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: time.Minute,
		ForceAttemptHTTP2: true, MaxIdleConns: 4, IdleConnTimeout: 10 * time.Second,
	}
}
