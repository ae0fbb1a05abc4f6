package listener

import (
	"cmp"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	quicv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/quic/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// handshakeTimeout returns the timeout of TLS handshakes with gateways for a value of
// Features.HandshakeTimeout. 0 is snapshot.DefaultHandshakeTimeout; for a negative value it returns
// nil, no limit.
func handshakeTimeout(configured time.Duration) *durationpb.Duration {
	if configured < 0 {
		return nil
	}
	return durationpb.New(cmp.Or(configured, snapshot.DefaultHandshakeTimeout))
}

// serverTLS returns how a server terminates TLS. The ALPN names are the same for requests and
// connections. ISTIO_MUTUAL, and SIMPLE with mesh.WorkloadCredential, use the gateway's own
// credentials; if it has none, the result names the mesh's, and it adds a Problem. ISTIO_MUTUAL has
// Envoy's versions and ciphers. It adds another Problem if external credentials cannot come from
// the mesh's SDS provider.
func (p *gatewayPlanner) serverTLS(s *view.GatewayServer) *TLS {
	in, protocols := s.Spec.GetTls(), []string{"h2", "http/1.1"}
	if fault := p.credentials.fault(in); fault != "" {
		p.addProblem(s.Object.Key, serverField(s)+".tls.credentialName", fault)
	}
	simple := in.GetMode() == networking.ServerTLSSettings_SIMPLE && in.GetCredentialName() == mesh.WorkloadCredential
	if in.GetMode() != networking.ServerTLSSettings_ISTIO_MUTUAL && !simple {
		return newTLS(in, p.credentials, protocols)
	}
	own := p.v.Key.ServerCredentials
	if own == (mesh.Credentials{}) {
		own = mesh.Credentials{Certificate: mesh.OwnCertificate, Roots: mesh.MeshRoots}
		p.addProblem(s.Object.Key, serverField(s)+".tls.mode",
			"gateways without certificates of the mesh, or files (TLS_SERVER_CERT_CHAIN) in their place, do not serve this")
	}
	if simple {
		t := newTLS(in, p.credentials, protocols)
		t.Certificates = []string{own.Certificate}
		return t
	}
	return &TLS{
		Certificates: []string{own.Certificate}, Trust: own.Roots, Required: true, Protocols: protocols,
		Names: in.GetSubjectAltNames(), RevocationFile: in.GetCaCrl(), Parameters: envoyParameters,
	}
}

// isWithheld reports whether the gateway may not read the server's certificates, and then adds a
// Problem. Its account has no right to read Secrets or is not the one of a deployed Gateway, or no
// ReferenceGrant lets Gateways of its namespace use a Secret of another one. The latter is not
// checked for listeners of the Gateway API. Such a server is not served, because Envoy keeps a
// withdrawn secret as long as it is in use.
func (p *gatewayPlanner) isWithheld(s *view.GatewayServer) bool {
	if !s.UsesTLS() || s.IsPassthrough() {
		return false
	}
	for _, c := range p.credentials.certificatesOf(s.Spec.GetTls()) {
		n, err := mesh.ParseSecretName(c)
		switch own := p.v.Key.Namespace; {
		case err != nil:
			continue
		case n.Store == mesh.KubernetesSecret && p.v.Key.SecretAccess == view.SecretsDenied:
			p.addProblem(s.Object.Key, serverField(s)+".tls.credentialName",
				"gateways in the namespace "+own+" whose service account may not read Secrets there do not serve this")
			return true
		case n.Store == mesh.GatewaySecret && !s.Object.Extension.PermitsAccount(p.v.Key.ServiceAccount):
			p.addProblem(s.Object.Key, serverField(s)+".tls.credentialName", "gateways with the service account "+
				p.v.Key.ServiceAccount+" do not serve this: the proxies of the Gateway have the service account "+
				s.Object.Extension.Gateway.ServiceAccount)
			return true
		case n.Store == mesh.GatewaySecret && n.Namespace != own && !s.IsListener() && // The converter checks those.
			(s.Object.Namespace != own || !p.v.Snapshot.IsReferenceGranted(own, n.Namespace, n.Object)):
			p.addProblem(s.Object.Key, serverField(s)+".tls.credentialName", "gateways in the namespace "+own+
				" do not serve this: no ReferenceGrant in "+n.Namespace+" lets Gateways of theirs name the Secret "+n.Object)
			return true
		}
	}
	return false
}

// overQUIC returns the listener for HTTP/3 that accompanies s: the same servers at the same port of
// UDP. Chains that request client certificates are left out, because Envoy does not support these
// over QUIC, and so are chains without HTTP or TLS. s is not modified.
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

// chainOverQUIC returns a copy of c, a chain of a gateway, for HTTP/3. The bool is false, and the
// copy zero, unless c serves HTTP over TLS without client certificates.
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

// transportSocket returns the transport socket of a chain with t: TLS, or QUIC for a QUIC listener.
// It returns nil, plaintext, if t is nil. It panics if its own encoding cannot be decoded.
func (b builder) transportSocket(t *TLS) *corev3.TransportSocket {
	inner := b.downstreamTLS(t)
	if inner == nil || !b.quic {
		return inner
	}
	context := new(tlsv3.DownstreamTlsContext)
	if err := inner.GetTypedConfig().UnmarshalTo(context); err != nil {
		panic("listener: unpack TLS: " + err.Error()) // generated
	}
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.quic",
		ConfigType: &corev3.TransportSocket_TypedConfig{
			TypedConfig: resource.Pack(&quicv3.QuicDownstreamTransport{DownstreamTlsContext: context}),
		}}
}

// makeQUIC makes l a QUIC listener at the same addresses.
func makeQUIC(l *listenerv3.Listener) {
	setUDP(l)
	l.UdpListenerConfig = &listenerv3.UdpListenerConfig{QuicOptions: new(listenerv3.QuicProtocolOptions)}
}

// setUDP sets the transport protocol of all addresses of a listener to UDP.
func setUDP(l *listenerv3.Listener) {
	for _, a := range slices.Concat([]*corev3.Address{l.GetAddress()}, additionalAddresses(l)) {
		a.GetSocketAddress().Protocol = corev3.SocketAddress_UDP
	}
}

// additionalAddresses returns the additional addresses of a listener, without the first.
func additionalAddresses(l *listenerv3.Listener) []*corev3.Address {
	var list []*corev3.Address
	for _, a := range l.GetAdditionalAddresses() {
		list = append(list, a.GetAddress())
	}
	return list
}
