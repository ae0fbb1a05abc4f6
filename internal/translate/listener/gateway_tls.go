package listener

import (
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	quicv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/quic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// handshakeTimeout is how long a client of a gateway may take for its handshake, as istiod has it.
const handshakeTimeout = 15 * time.Second

// tls gives how a server ends TLS. What the API's protocols of ALPN say is the same for requests and bytes.
func (p *gatewayPlanner) tls(s *view.GatewayServer) *TLS {
	in, protocols := s.Spec.GetTls(), []string{"h2", "http/1.1"}
	if in.GetMode() != networking.ServerTLSSettings_ISTIO_MUTUAL {
		return newTLS(in, protocols)
	}
	own := p.v.Key.Server
	if own == (mesh.Credentials{}) {
		own = mesh.Credentials{Certificate: mesh.OwnCertificate, Roots: mesh.MeshRoots}
		p.problem(s.Object.Key, serverField(s)+".tls.mode",
			"gateways without certificates of the mesh, or files (TLS_SERVER_CERT_CHAIN) in their place, do not serve this")
	}
	return &TLS{
		Certificates: []string{own.Certificate}, Trust: own.Roots, Required: true, Protocols: protocols,
		Names: in.GetSubjectAltNames(), RevocationFile: in.GetCaCrl(),
	}
}

// withheld says whether the server's certificates are Secrets that the gateway may not have, or not any more: its account has no
// right to them, or they are of another namespace that has not granted them. Then it is not served: Envoy keeps a secret that is
// withdrawn for as long as something uses it.
func (p *gatewayPlanner) withheld(s *view.GatewayServer) bool {
	if !s.TLS() || s.Passthrough() {
		return false
	}
	for _, c := range certificatesOf(s.Spec.GetTls()) {
		n, err := mesh.ParseSecretName(c)
		switch own := p.v.Key.Namespace; {
		case err != nil:
			continue
		case n.Store == mesh.KubernetesSecret && p.v.Key.Keys == view.KeysRefused:
			p.problem(s.Object.Key, serverField(s)+".tls.credentialName",
				"gateways in the namespace "+own+" whose service account may not read Secrets there do not serve this")
			return true
		case n.Store == mesh.GatewaySecret && n.Namespace != own && (s.Object.Namespace != own || !p.v.Snapshot.MayRefer(own, n.Namespace, n.Object)):
			p.problem(s.Object.Key, serverField(s)+".tls.credentialName", "gateways in the namespace "+own+
				" do not serve this: no ReferenceGrant in "+n.Namespace+" lets Gateways of theirs name the Secret "+n.Object)
			return true
		}
	}
	return false
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
		TypedConfig: resource.Pack(&quicv3.QuicDownstreamTransport{DownstreamTlsContext: context}),
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
