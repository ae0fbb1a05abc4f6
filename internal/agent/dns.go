package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"net"

	"github.com/meshpilot/meshpilot/internal/agent/dns"
	"github.com/meshpilot/meshpilot/internal/agent/environment"
	"github.com/meshpilot/meshpilot/internal/agent/envoy"
	"github.com/meshpilot/meshpilot/internal/agent/outbound"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	resolvConf = "/etc/resolv.conf"
	// savedResolvConf is where Istio's scripts save the host's resolv.conf if the agent becomes its
	// only resolver.
	savedResolvConf = "/var/lib/istio/resolv.conf"
	dnsPort         = "53"
	// proxyID is the user and group of the proxy in Istio's images.
	proxyID = 1337
)

// userOfEnvoy returns the proxy's user if the agent runs as root for the sake of DNS at port 53, as
// in containers without capture, and otherwise nil.
func userOfEnvoy(agentUID int, dnsAddress string) *envoy.User {
	if _, port, err := net.SplitHostPort(dnsAddress); err != nil || port != dnsPort || agentUID != 0 {
		return nil
	}
	return &envoy.User{UID: proxyID, GID: proxyID}
}

// servesDNS reports whether the DNS proxy is enabled: by DNS.Serve on every proxy, by DNS.Capture
// only on sidecars.
func (a *agent) servesDNS() bool {
	d := a.Environment.DNS
	return d.Serve || d.Capture && a.Node.Type == mesh.SidecarProxy
}

// openDNS opens the DNS proxy at DNS_PROXY_ADDR, sets a.dnsServer and adds it to p. If this user
// may not open that address, it logs an error and uses the default address. It does nothing if the
// DNS proxy is disabled, and returns an error if the address is invalid or cannot be opened.
func (a *agent) openDNS(p *parts) (err error) {
	if !a.servesDNS() {
		return nil
	}
	address := a.Environment.DNS.Address
	a.dnsServer, err = a.listenDNS(address)
	if errors.Is(err, fs.ErrPermission) && address != environment.DefaultDNSAddress {
		a.scopeLogger("dns").Error("cannot open the address of DNS_PROXY_ADDR, using the default",
			"default", environment.DefaultDNSAddress, "error", err)
		a.dnsServer, err = a.listenDNS(environment.DefaultDNSAddress)
	}
	if err != nil {
		return fmt.Errorf("%w (DNS_PROXY_ADDR)", err)
	}
	p.close = append(p.close, a.dnsServer.Close)
	p.run = append(p.run, a.dnsServer.Run)
	a.scopeLogger("dns").Info("DNS proxy listening", "addresses", a.dnsServer.ListenAddresses())
	return nil
}

// listenDNS opens the DNS proxy at an address, and for the host localhost at the loopback
// addresses. The upstream servers come from resolvConf, but at port 53 from savedResolvConf if that
// exists. At port 53 it also forwards queries without a name table.
func (a *agent) listenDNS(address string) (*dns.Server, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	d := a.Environment.DNS
	o := dns.Options{
		Recovery:  a.recovery,
		Addresses: []string{address}, ResolvConf: resolvConf,
		ShortNames:    dns.NewShortNames(a.Node.Metadata.Namespace, a.Node.Domain),
		EarlyUpstream: port == dnsPort, Timeout: d.Timeout, Parallel: d.Parallel,
		Dialer:       outbound.NewDialer(a.Environment.SocketMark),
		ListenConfig: outbound.NewListenConfig(a.Environment.SocketMark),
		Metrics:      a.metrics.Registerer(), Log: a.scopeLogger("dns"),
	}
	if host == "localhost" {
		o.Addresses = loopbacks(port)
	}
	if port == dnsPort && existingFile(savedResolvConf) != "" {
		o.ResolvConf = savedResolvConf
	}
	return dns.Open(o)
}

// loopbacks returns 127.0.0.1 with the port, and [::1] with the port if a test listener can be
// opened there. Applications may use either IP version.
func loopbacks(port string) []string {
	list := []string{net.JoinHostPort("127.0.0.1", port)}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close() // only tests whether IPv6 is available
		list = append(list, net.JoinHostPort("::1", port))
	}
	return list
}

// applyNameTable decodes and applies the control plane's name table. If it is invalid, it returns
// an error and the previous table stays. The DNS proxy must be open.
func (a *agent) applyNameTable(body []byte) error {
	table, err := mesh.DecodeNameTable(body)
	if err != nil {
		return err
	}
	a.dnsServer.SetNameTable(table)
	return nil
}

// checkParts returns an error while the DNS proxy has no name table. Without a DNS proxy it returns
// nil.
func (a *agent) checkParts() error {
	if a.dnsServer == nil {
		return nil
	}
	return a.dnsServer.CheckReady()
}

// dumpNameTable returns the name table for the debug page. It returns a nil interface without a DNS
// proxy or before the first table.
func (a *agent) dumpNameTable() any {
	if a.dnsServer == nil {
		return nil
	}
	if d := a.dnsServer.Dump(); d != nil {
		return d
	}
	return nil
}
