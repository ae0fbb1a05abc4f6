package agent

import (
	"fmt"
	"net"

	"github.com/meshpilot/meshpilot/internal/agent/dns"
	"github.com/meshpilot/meshpilot/internal/agent/outbound"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

const (
	resolvConf = "/etc/resolv.conf"
	// setAside is where the host's own resolv.conf is where the agent is its only resolver, as Istio has it.
	setAside = "/var/lib/istio/resolv.conf"
	dnsPort  = "53"
)

// answersNames says whether the agent answers DNS queries: beside an application that is captured, or where it is asked for.
func (a *agent) answersNames() bool {
	d := a.Environment.DNS
	return d.Serve || d.Capture && a.Node.Type == mesh.SidecarProxy
}

// openNames opens the DNS proxy.
func (a *agent) openNames(p *parts) error {
	if !a.answersNames() {
		return nil
	}
	d := a.Environment.DNS
	host, port, err := net.SplitHostPort(d.Address)
	if err != nil {
		return fmt.Errorf("environment variable DNS_PROXY_ADDR: %w", err)
	}
	o := dns.Options{
		Recovery:  a.recovery,
		Addresses: []string{d.Address}, Names: dns.NamesOf(a.Node.Metadata.Namespace, a.Node.Domain), ResolvConf: resolvConf,
		EarlyUpstream: port == dnsPort, Timeout: d.Timeout, Parallel: d.Parallel,
		Dialer: outbound.Dialer(a.Environment.SocketMark), Metrics: a.metrics.Registerer(), Log: a.scope("dns"),
	}
	if host == "localhost" {
		o.Addresses = loopbacks(port)
	}
	if port == dnsPort && existing(setAside) != "" {
		o.ResolvConf = setAside
	}
	a.names, err = dns.Open(o)
	if err != nil {
		return fmt.Errorf("%w (DNS_PROXY_ADDR)", err)
	}
	p.close = append(p.close, a.names.Close)
	p.run = append(p.run, a.names.Run)
	a.scope("dns").Info("answering DNS queries", "at", a.names.Bound())
	return nil
}

// loopbacks are the loopback addresses that the host has: an application may ask by either version of IP.
func loopbacks(port string) []string {
	list := []string{net.JoinHostPort("127.0.0.1", port)}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close() // it was only to see
		list = append(list, net.JoinHostPort("::1", port))
	}
	return list
}

// useNames takes the control plane's name table.
func (a *agent) useNames(body []byte) error {
	table, err := mesh.DecodeNameTable(body)
	if err != nil {
		return err
	}
	a.names.Update(table)
	return nil
}

// ready says what of the agent itself is not ready.
func (a *agent) ready() error {
	if a.names == nil {
		return nil
	}
	return a.names.Ready()
}

// nameTable is what the DNS proxy answers from, for people to read; nil if there is none.
func (a *agent) nameTable() any {
	if a.names == nil {
		return nil
	}
	if d := a.names.Dump(); d != nil {
		return d
	}
	return nil
}
