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

// By what a client's proxy offers in ALPN it is told from applications that speak TLS themselves, and requests from bytes. Only
// the client says so: what is agreed on is another matter.
var (
	peerHTTP = []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"} //nolint:gochecknoglobals // constants
	peerTCP  = []string{"istio-peer-exchange", "istio"}                 //nolint:gochecknoglobals // constants
)

// peers is how a proxy takes connections of other proxies (PeerAuthentication).
type peers struct {
	own   mesh.Credentials
	modes snapshot.PeerModes
	// domains are the trust domains whose identities are taken; nil: any that the roots vouch for.
	domains []string
}

// peersOf gives the peers of a View. A proxy without credentials takes everything as it comes.
func peersOf(v *view.View) peers {
	p := peers{own: v.Key.Server, modes: snapshot.PeerModes{Mode: security.PeerAuthentication_MutualTLS_DISABLE}}
	if p.own != (mesh.Credentials{}) {
		p.modes = v.Key.PeerModes(v.Snapshot)
		if !v.Settings.Features.AnyTrustDomain {
			p.domains = v.Settings.TrustDomains()
		}
	}
	return p
}

// elsewhere gives the ports with a mode of their own that are none of those, sorted.
func (p peers) elsewhere(ports []inboundPort) []uint32 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(p.modes.Ports)), func(port uint32) bool {
		return slices.ContainsFunc(ports, func(known inboundPort) bool { return known.port == port })
	})
}

// mutual gives a chain that ends mutual TLS and then is like the one given. offers are what clients must offer; nil: anything.
func (p peers) mutual(c *Chain, offers []string) Chain {
	m := *c
	m.Name += "_mtls"
	m.Match.Transport, m.Match.HTTP, m.Match.ALPN = tlsTransport, false, offers
	m.TLS = &TLS{Certificates: []string{p.own.Certificate}, Trust: p.own.Roots, Required: true, Peers: true, Domains: p.domains}
	if m.HTTP != nil {
		m.TLS.Protocols = []string{"h2", "http/1.1"}
	}
	return m
}

// chains gives the chains of a mode for what is read as HTTP, as bytes, or if both are given as either. DestinationPort and the
// like are those of the chains given. What no chain takes is for the listener's default.
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
	strict := mode == security.PeerAuthentication_MutualTLS_STRICT
	either := http != nil && tcp != nil
	if http != nil {
		list = append(list, p.mutual(http, offered(either, peerHTTP)))
	}
	if tcp != nil {
		list = append(list, p.mutual(tcp, offered(either, peerTCP)))
	}
	if strict {
		// Chains that PERMISSIVE has too stay as they are, so that Envoy ends no connection of theirs.
		return append(list, p.anybody(http, tcp))
	}
	for _, c := range []*Chain{http, tcp} {
		if c != nil {
			plain := *c
			plain.Match.Transport = rawBuffer
			list = append(list, plain)
		}
	}
	if tcp != nil { // TLS of applications is bytes
		list = append(list, Chain{Name: tcp.Name + "_tls", Match: tcp.Match, TCP: tcp.TCP})
		list[len(list)-1].Match.Transport = tlsTransport
	}
	return list
}

// anybody gives a chain that ends mutual TLS of those who offer nothing that proxies do: what does not say that it is HTTP is
// bytes, where it may be.
func (p peers) anybody(http, tcp *Chain) Chain {
	c := p.mutual(cmp.Or(tcp, http), nil)
	c.Name += "_any"
	return c
}

// offered gives what clients must offer to be taken for proxies: where requests are told from bytes one of those, else any.
func offered(apart bool, those []string) []string {
	if apart {
		return those
	}
	return slices.Concat(peerTCP, peerHTTP)
}

// plain gives the chains of a port at which the proxy takes no mutual TLS of the mesh.
func (p peers) plain(port uint32, http, tcp *Chain) []Chain {
	p.modes = snapshot.PeerModes{Mode: security.PeerAuthentication_MutualTLS_DISABLE}
	return p.port(port, http, tcp, "")
}

// port returns the chains of a port of the workload at the listener of captured connections. The last
// one closes what the others do not take: plain text under STRICT, and under PERMISSIVE, TLS of clients
// that are no proxies at a port declared as HTTP. Without it the listener's default chain would forward
// such connections without the policies of the port. The chains do not depend on policies, so that a
// policy for requests changes no listener (ADR 25).
func (p peers) port(port uint32, http, tcp *Chain, address string) []Chain {
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
		c := Chain{Name: http.Name + "_tls", Match: http.Match, TCP: forward(mesh.BlackHoleCluster)}
		c.Match.Transport = tlsTransport
		list = append(list, c)
	}
	return list
}

// passed gives the chains of connections to where no service is known to be: they go on as they came. port 0 is all ports.
func (p peers) passed(port uint32, address string) (http, tcp *Chain) {
	operation := ":" + number(port) + "/*"
	http = &Chain{
		Name: "virtualInbound-catchall-http", Match: Match{HTTP: true},
		HTTP: &HTTP{StatPrefix: mesh.InboundPassthroughCluster, Inbound: &InboundRoute{
			Cluster: mesh.InboundPassthroughCluster, VirtualHost: "inbound|http|" + number(port), Operation: operation,
		}},
	}
	tcp = &Chain{Name: virtualInbound, TCP: forward(mesh.InboundPassthroughCluster)}
	if port != 0 {
		http.Name, tcp.Name = name(address, port), name(address, port)+"_tcp"
	}
	return http, tcp
}
