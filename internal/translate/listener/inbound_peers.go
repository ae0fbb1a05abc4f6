package listener

import (
	"cmp"
	"maps"
	"slices"

	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// ALPN names distinguish proxies from applications with TLS, and requests from raw connections.
// They are what clients offer; the negotiated protocol is independent.
var (
	peerHTTP = []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"} //nolint:gochecknoglobals // constants
	peerTCP  = []string{"istio-peer-exchange", "istio"}                 //nolint:gochecknoglobals // constants
)

// peers is how a proxy accepts connections of other proxies (PeerAuthentication).
type peers struct {
	own   mesh.Credentials
	modes snapshot.PeerModes
	// domains are the accepted trust domains; nil for any that the roots verify.
	domains []string
}

// peersOf returns how the proxies of a View accept other proxies. Only peers of the mesh's trust
// domains are accepted, unless AcceptAnyTrustDomain is set. Proxies without credentials of the mesh
// accept plaintext in the mode PERMISSIVE too, and nothing in the mode STRICT.
func peersOf(v *view.View) peers {
	p := peers{own: v.Key.ServerCredentials, modes: v.Key.PeerModes(v.Snapshot)}
	switch {
	case p.own == (mesh.Credentials{}):
		p.modes = withoutMTLS(p.modes)
	case !v.Settings.Features.AcceptAnyTrustDomain:
		p.domains = v.Settings.TrustDomains()
	}
	return p
}

// withoutMTLS returns the modes of a proxy that has no credentials: STRICT stays, all others are
// DISABLE. m is not modified.
func withoutMTLS(m snapshot.PeerModes) snapshot.PeerModes {
	plain := func(mode snapshot.PeerMode) snapshot.PeerMode {
		if mode == security.PeerAuthentication_MutualTLS_STRICT {
			return mode
		}
		return security.PeerAuthentication_MutualTLS_DISABLE
	}
	ports := make(map[uint32]snapshot.PeerMode, len(m.Ports))
	for port, mode := range m.Ports {
		ports[port] = plain(mode)
	}
	m.Mode, m.Ports = plain(m.Mode), ports
	return m
}

// refusesAll reports whether the proxy refuses all connections at some ports: it has no credentials
// for the mode STRICT.
func (p peers) refusesAll() bool {
	strict := func(mode snapshot.PeerMode) bool { return mode == security.PeerAuthentication_MutualTLS_STRICT }
	return p.own == (mesh.Credentials{}) &&
		(strict(p.modes.Mode) || slices.ContainsFunc(slices.Collect(maps.Values(p.modes.Ports)), strict))
}

// portsBeyond returns the ports with a PeerAuthentication mode of their own that are not in ports,
// sorted.
func (p peers) portsBeyond(ports []inboundPort) []uint32 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.modes.Ports)), func(port uint32) bool {
		return slices.ContainsFunc(ports, func(known inboundPort) bool { return known.port == port })
	})
}

// withMTLS returns a copy of c, with the suffix "_mtls", that requires mutual TLS with the proxy's
// own credentials and accepts only clients of p.domains. offers are the ALPN names that clients
// must offer; nil matches any. A chain for HTTP negotiates h2 or http/1.1.
func (p peers) withMTLS(c *Chain, offers []string) Chain {
	m := *c
	m.Name += "_mtls"
	m.Match.Transport, m.Match.HTTP, m.Match.ALPN = tlsTransport, false, offers
	m.TLS = &TLS{
		Certificates: []string{p.own.Certificate},
		Trust:        p.own.Roots,
		Required:     true,
		Parameters:   peerParameters,
		Domains:      p.domains,
	}
	if m.HTTP != nil {
		m.TLS.Protocols = []string{"h2", "http/1.1"}
	}
	return m
}

// chains returns the chains that a PeerAuthentication mode requires. http and tcp are the chains of
// plaintext connections; one of them may be nil. DISABLE returns them unchanged. STRICT returns
// each with mutual TLS, and a chain for clients that offer no ALPN name of the mesh (anyClient).
// PERMISSIVE returns each with mutual TLS and in plaintext, and for tcp also a chain that forwards
// TLS as bytes. Without credentials there are none, except for DISABLE.
//
// Other match fields are kept. No chain refuses connections: the listener's default chain handles
// connections that match none.
func (p peers) chains(mode snapshot.PeerMode, http, tcp *Chain) []Chain {
	var list []Chain
	if mode == security.PeerAuthentication_MutualTLS_DISABLE {
		for _, c := range []*Chain{http, tcp} {
			if c != nil {
				list = append(list, *c)
			}
		}
		return list
	}
	if p.own == (mesh.Credentials{}) {
		return nil
	}
	strict := mode == security.PeerAuthentication_MutualTLS_STRICT
	either := http != nil && tcp != nil
	if http != nil {
		list = append(list, p.withMTLS(http, requiredALPNs(either, peerHTTP)))
	}
	if tcp != nil {
		list = append(list, p.withMTLS(tcp, requiredALPNs(either, peerTCP)))
	}
	if strict {
		// Chains that PERMISSIVE has too are unchanged, so that Envoy drains none of their
		// connections.
		return append(list, p.anyClient(http, tcp))
	}
	for _, c := range []*Chain{http, tcp} {
		if c != nil {
			plain := *c
			plain.Match.Transport = rawBuffer
			list = append(list, plain)
		}
	}
	if tcp != nil { // TLS of applications is forwarded as bytes.
		list = append(list, Chain{Name: tcp.Name + "_tls", Match: tcp.Match, TCP: tcp.TCP})
		list[len(list)-1].Match.Transport = tlsTransport
	}
	return list
}

// anyClient returns a chain with mutual TLS for clients that offer none of the proxies' ALPN names.
// It handles connections as TCP if tcp is not nil, else as HTTP.
func (p peers) anyClient(http, tcp *Chain) Chain {
	c := p.withMTLS(cmp.Or(tcp, http), nil)
	c.Name += "_any"
	return c
}

// requiredALPNs returns the ALPN names that clients must offer: those if apart is set, because they
// then distinguish requests from raw connections, and otherwise all names of proxies.
func requiredALPNs(apart bool, those []string) []string {
	if apart {
		return those
	}
	return slices.Concat(peerTCP, peerHTTP)
}

// portChains returns the chains of a port at the listener of captured connections, with the mode of
// the port. It sets the destination port in the Match of http and tcp; one of them may be nil.
// address only determines the name of the chain that refuses connections.
//
// The last chain closes connections that the others do not match: plaintext under STRICT, and under
// PERMISSIVE, TLS of clients without a proxy at a port declared as HTTP. Otherwise the listener's
// default chain would forward such connections without the policies of the port. There is no such
// chain under DISABLE, or under PERMISSIVE if tcp is not nil. The chains do not depend on policies,
// so that a policy for requests changes no listener (ADR 25).
func (p peers) portChains(port uint32, http, tcp *Chain, address string) []Chain {
	for _, c := range []*Chain{http, tcp} {
		if c != nil {
			c.Match.DestinationPort = port
		}
	}
	mode := p.modes.At(port)
	list := p.chains(mode, http, tcp)
	switch {
	case mode == security.PeerAuthentication_MutualTLS_STRICT:
		list = append(list, refusal(address, port))
	case mode != security.PeerAuthentication_MutualTLS_DISABLE && tcp == nil:
		c := Chain{Name: http.Name + "_tls", Match: http.Match, TCP: forwardTo(mesh.BlackHoleCluster)}
		c.Match.Transport = tlsTransport
		list = append(list, c)
	}
	return list
}

// passthroughChains returns the chains, for HTTP and for TCP, of connections to ports without a
// known service. They forward to the original destination. The caller adds mutual TLS (chains) and
// the destination port of their Match (portChains). port only makes their names unique, 0 means all
// ports. The other names are istiod's, also for a single port. Neither chain is nil.
func passthroughChains(port uint32) (http, tcp *Chain) {
	http = &Chain{
		Name: "virtualInbound-catchall-http", Match: Match{HTTP: true},
		HTTP: &HTTP{StatPrefix: mesh.InboundPassthroughCluster + ";", Inbound: &InboundRoute{
			Cluster:     mesh.InboundPassthroughCluster,
			VirtualHost: "inbound|http|0",
			Operation:   ":0/*",
			Retries:     true,
		}},
	}
	tcp = &Chain{Name: virtualInbound, TCP: forwardTo(mesh.InboundPassthroughCluster)}
	if port != 0 {
		http.Name, tcp.Name = listenerName(http.Name, port), listenerName(tcp.Name, port)
	}
	return http, tcp
}
