package wasm

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// dialTimeout bounds connecting to where modules are.
const dialTimeout = 10 * time.Second

// guarded is a dialer that refuses addresses at which no module can be and much else is. It looks at the address that is
// really connected to, after names were resolved: a name that changes its mind, or a redirect, gets nowhere else.
func guarded(base *net.Dialer) *net.Dialer {
	d := *base
	d.Timeout = dialTimeout
	then := base.Control
	d.Control = func(network, address string, c syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("connect to %q: %w", address, err)
		}
		if refused(a.Addr()) {
			return fmt.Errorf("connect to %s: modules are not fetched from link-local addresses", a.Addr())
		}
		if then != nil {
			return then(network, address, c)
		}
		return nil
	}
	return &d
}

// refused says whether nobody should be asked for a module at an address.
func refused(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	metadata := netip.AddrFrom16([16]byte{0xfd, 0x00, 0x0e, 0xc2, 14: 0x02, 15: 0x54}) // fd00:ec2::254, of Amazon's machines
	return a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() || a == metadata
}

// transport reaches where modules are. The environment's proxies are meant for the application.
func transport(d *net.Dialer) *http.Transport {
	return &http.Transport{
		DialContext: guarded(d).DialContext, Proxy: nil, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: time.Minute,
		ForceAttemptHTTP2: true, MaxIdleConns: 4, IdleConnTimeout: 10 * time.Second,
	}
}
