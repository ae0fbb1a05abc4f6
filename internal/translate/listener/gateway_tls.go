package listener

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	quicv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/quic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/mesh"
	"github.com/meshpilot/meshpilot/internal/view"
)

// SDS names of the identity that a proxy has from the mesh, which is its agent's to give.
const (
	ownCertificate = "default"
	meshRoots      = "ROOTCA"
)

// handshakeTimeout is how long a client of a gateway may take for its handshake, as istiod has it.
const handshakeTimeout = 15 * time.Second

// tls gives how a server ends TLS. What the API's protocols of ALPN say is the same for requests and bytes.
func (p *gatewayPlanner) tls(s *view.GatewayServer) *TLS {
	in, protocols := s.Spec.GetTls(), []string{"h2", "http/1.1"}
	if in.GetMode() != networking.ServerTLSSettings_ISTIO_MUTUAL {
		return newTLS(in, protocols)
	}
	t := &TLS{
		Certificates: []string{ownCertificate}, Trust: meshRoots, Required: true, Protocols: protocols,
		Names: in.GetSubjectAltNames(), RevocationFile: in.GetCaCrl(),
	}
	if m := p.v.Key.Gateway.Mounted; m != (mesh.CertificateFiles{}) {
		t.Certificates = []string{mesh.FileCertificate(m.Chain, m.Key)}
		if m.Roots != "" {
			t.Trust = mesh.FileRoots(m.Roots)
		}
		return t
	}
	p.problem(s.Object.Key, serverField(s)+".tls.mode", "proxies have no certificates of the mesh yet: only gateways that have some as files (TLS_SERVER_CERT_CHAIN) serve this")
	return t
}

// overQUIC gives the listener for HTTP/3 beside one for HTTPS: the same servers at the same port of UDP, but for those that want
// certificates of clients, which Envoy does not ask for there.
func overQUIC(s *Spec) Spec {
	q := *s
	q.Name, q.QUIC, q.ProxyProtocol, q.TLSInspector = "udp_"+s.Name, true, false, false
	q.Chains, q.Default = nil, Chain{}
	for i := range s.Chains {
		if c, ok := chainOverQUIC(&s.Chains[i]); ok {
			q.Chains = append(q.Chains, c)
		}
	}
	if c, ok := chainOverQUIC(&s.Default); ok {
		q.Default = c
	}
	return q
}

func chainOverQUIC(c *Chain) (Chain, bool) {
	if c.HTTP == nil || c.TLS == nil || c.TLS.Trust != "" {
		return Chain{}, false
	}
	out := *c
	t, h, edge := *c.TLS, *c.HTTP, *c.HTTP.Gateway
	t.Protocols = []string{"h3"}
	edge.HTTP3, h.Gateway = true, &edge
	out.TLS, out.HTTP = &t, &h
	return out, true
}

// transportSocket writes what a chain's connections are wrapped in, nil for nothing.
func (b builder) transportSocket(t *TLS) *corev3.TransportSocket {
	inner := b.downstreamTLS(t)
	if inner == nil || !b.quic {
		return inner
	}
	context := new(tlsv3.DownstreamTlsContext)
	if err := inner.GetTypedConfig().UnmarshalTo(context); err != nil {
		panic("listener: unpack TLS: " + err.Error()) // of our own making
	}
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.quic", ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: packed(&quicv3.QuicDownstreamTransport{DownstreamTlsContext: context}),
	}}
}

// overUDP makes a listener one of QUIC.
func overUDP(l *listenerv3.Listener) {
	for _, a := range slices.Concat([]*corev3.Address{l.GetAddress()}, additional(l)) {
		a.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	}
	l.UdpListenerConfig = &listenerv3.UdpListenerConfig{QuicOptions: new(listenerv3.QuicProtocolOptions)}
}

func additional(l *listenerv3.Listener) []*corev3.Address {
	var list []*corev3.Address
	for _, a := range l.GetAdditionalAddresses() {
		list = append(list, a.GetAddress())
	}
	return list
}
