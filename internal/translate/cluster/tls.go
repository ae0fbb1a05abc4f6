package cluster

import (
	"net/netip"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/mesh"
)

// systemRoots is where Debian, Ubuntu and the images made of them keep the certificates of public authorities. A
// DestinationRule without caCertificates trusts those.
const systemRoots = "/etc/ssl/certs/ca-certificates.crt"

// transport is what a cluster's bytes are wrapped in.
type transport struct {
	tls           *networking.ClientTLSSettings
	defaults      *meshconfig.MeshConfig_TLSConfig
	proxyProtocol *networking.TrafficPolicy_ProxyProtocol
	service       *mesh.Service
}

// applyTransport sets the cluster's transport socket: TLS, a PROXY protocol header before it, both or none.
func applyTransport(c *clusterv3.Cluster, http *httpProtocol, t transport) {
	switch t.tls.GetMode() {
	case networking.ClientTLSSettings_SIMPLE, networking.ClientTLSSettings_MUTUAL:
		c.TransportSocket = socket("envoy.transport_sockets.tls", t.context(http))
	default:
		// ISTIO_MUTUAL needs identities; until proxies have them Unhonoured says that nothing is encrypted.
	}
	if t.proxyProtocol == nil {
		return
	}
	inner := c.TransportSocket
	if inner == nil {
		inner = socket("envoy.transport_sockets.raw_buffer", &rawbufferv3.RawBuffer{})
	}
	c.TransportSocket = socket("envoy.transport_sockets.upstream_proxy_protocol", &proxyprotocolv3.ProxyProtocolUpstreamTransport{
		Config:          &corev3.ProxyProtocolConfig{Version: corev3.ProxyProtocolConfig_Version(t.proxyProtocol.GetVersion())},
		TransportSocket: inner,
	})
}

func socket(name string, m proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(m)}}
}

// context makes the client side of a TLS connection (ClientTLSSettings).
func (t transport) context(http *httpProtocol) *tlsv3.UpstreamTlsContext {
	common := &tlsv3.CommonTlsContext{TlsParams: &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		CipherSuites:              t.defaults.GetCipherSuites(),
		EcdhCurves:                t.defaults.GetEcdhCurves(),
	}}
	if t.tls.GetMode() == networking.ClientTLSSettings_MUTUAL && t.tls.GetClientCertificate() != "" && t.tls.GetPrivateKey() != "" {
		common.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: file(t.tls.GetClientCertificate()), PrivateKey: file(t.tls.GetPrivateKey())}}
	}
	common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: t.validation()}
	if http.only2 {
		common.AlpnProtocols = []string{"h2"}
	}
	// Without a name given, Envoy takes it from the request's host, and without names to expect it expects that one.
	auto := t.tls.GetSni() == ""
	http.autoTLSNames(auto, auto && len(t.tls.GetSubjectAltNames()) == 0 && !t.tls.GetInsecureSkipVerify().GetValue())
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: t.tls.GetSni()}
}

// validation says which certificates of the server are taken.
func (t transport) validation() *tlsv3.CertificateValidationContext {
	if t.tls.GetInsecureSkipVerify().GetValue() {
		return &tlsv3.CertificateValidationContext{TrustChainVerification: tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED}
	}
	roots := t.tls.GetCaCertificates()
	if roots == "" {
		roots = systemRoots
	}
	out := &tlsv3.CertificateValidationContext{TrustedCa: file(roots)}
	if crl := t.tls.GetCaCrl(); crl != "" {
		out.Crl = file(crl)
	}
	names := t.tls.GetSubjectAltNames()
	if len(names) == 0 && t.service.Provider == mesh.External {
		names = t.service.Accounts
	}
	for _, name := range names {
		out.MatchTypedSubjectAltNames = append(out.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
			SanType: sanType(name),
			Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
		})
	}
	return out
}

// sanType says what kind of name a subjectAltName of the API is, which the API does not.
func sanType(name string) tlsv3.SubjectAltNameMatcher_SanType {
	switch _, err := netip.ParseAddr(name); {
	case err == nil:
		return tlsv3.SubjectAltNameMatcher_IP_ADDRESS
	case strings.Contains(name, "://"):
		return tlsv3.SubjectAltNameMatcher_URI
	case strings.Contains(name, "@"):
		return tlsv3.SubjectAltNameMatcher_EMAIL
	default:
		return tlsv3.SubjectAltNameMatcher_DNS
	}
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
