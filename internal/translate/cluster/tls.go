package cluster

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"
	rawbufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/translate/certificate"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// transport is what a cluster's bytes are wrapped in.
type transport struct {
	tls           *networking.ClientTLSSettings
	mesh          *meshconfig.MeshConfig
	features      snapshot.Features
	proxyProtocol *networking.TrafficPolicy_ProxyProtocol
	proxy         Proxy
	// credentials says that tls may name secrets that are not for everyone: it is for chosen proxies.
	credentials bool
	// service is nil for a cluster of no service in particular, and port the zero Port.
	service *mesh.Service
	port    mesh.Port
	name    mesh.ClusterName
	// accounts are who may answer for the service.
	accounts []string
	// automatic says that proxies call each other with mutual TLS where no user says how a service is called.
	automatic automatic
}

// automatic is which endpoints are called with mutual TLS unasked.
type automatic int

const (
	never automatic = iota
	// whereTaken are those whose metadata says that they take it.
	whereTaken
	// always is all of them.
	always
)

// transport gives what connections of the cluster are wrapped in.
func (in OutboundInput) transport(port mesh.Port, p *networking.TrafficPolicy) transport {
	return transport{
		tls: p.GetTls(), mesh: in.Settings.Mesh, features: in.Settings.Features, proxyProtocol: p.GetProxyProtocol(), proxy: in.Proxy, automatic: in.automatic(p),
		credentials: in.Rule != nil && in.Rule.Selects, service: in.Service, port: port, name: in.Name(), accounts: decodeAccounts(in.Accounts),
	}
}

// apply sets the cluster's transport socket: TLS, a PROXY protocol header before it, both or none.
func (t transport) apply(c *clusterv3.Cluster, http *httpProtocol) {
	mode := t.tls.GetMode()
	switch {
	case mode == networking.ClientTLSSettings_SIMPLE, mode == networking.ClientTLSSettings_MUTUAL:
		c.TransportSocket = t.announced(socket("envoy.transport_sockets.tls", t.originated(http)))
	case t.automatic == whereTaken:
		t.matchEndpoints(c, http)
	case t.automatic == always, mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		t.matchRequests(c, http)
	case t.proxyProtocol != nil:
		c.TransportSocket = t.announced(plain())
	}
}

// announced puts a PROXY protocol header before what a socket sends, if the user wants one.
func (t transport) announced(inner *corev3.TransportSocket) *corev3.TransportSocket {
	if t.proxyProtocol == nil {
		return inner
	}
	return socket("envoy.transport_sockets.upstream_proxy_protocol", &proxyprotocolv3.ProxyProtocolUpstreamTransport{
		Config:          &corev3.ProxyProtocolConfig{Version: corev3.ProxyProtocolConfig_Version(t.proxyProtocol.GetVersion())},
		TransportSocket: inner,
	})
}

func plain() *corev3.TransportSocket {
	return socket("envoy.transport_sockets.raw_buffer", &rawbufferv3.RawBuffer{})
}

func socket(name string, m proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: resource.Pack(m)}}
}

// originated makes the client side of TLS as the user has it (modes SIMPLE and MUTUAL).
func (t transport) originated(http *httpProtocol) *tlsv3.UpstreamTlsContext {
	params, defaults := tlsVersions(), t.mesh.GetTlsDefaults()
	params.CipherSuites, params.EcdhCurves = defaults.GetCipherSuites(), defaults.GetEcdhCurves()
	if defaults.GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 {
		params.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
	}
	common := &tlsv3.CommonTlsContext{TlsParams: params}
	own, trust := t.secrets()
	if own != "" {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{certificate.Secret(own)}
	}
	names := t.tls.GetSubjectAltNames()
	if len(names) == 0 && t.service != nil && t.service.Provider == mesh.External {
		names = t.service.Accounts
	}
	skip := t.takesAny(names)
	if skip {
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustChainVerification: tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED,
		}}
	} else {
		common.ValidationContextType = t.checked(trust, names)
	}
	if http.only2 {
		common.AlpnProtocols = []string{"h2"}
	}
	// Without a name given, Envoy takes it from the request's host, and without names to expect it expects that one.
	auto := t.tls.GetSni() == ""
	http.autoTLSNames(auto, auto && len(t.tls.GetSubjectAltNames()) == 0 && !skip && t.checksUnasked())
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: t.tls.GetSni()}
}

// checksUnasked says whether a server's authority and name are checked where the user names neither: unless the user, or else the
// mesh, says otherwise (MeshConfig.verifyCertificateAtClient, VERIFY_CERTIFICATE_AT_CLIENT).
func (t transport) checksUnasked() bool {
	if own := t.tls.GetInsecureSkipVerify(); own != nil {
		return !own.GetValue()
	}
	all := t.mesh.GetVerifyCertificateAtClient() //nolint:staticcheck // deprecated, and nothing has taken its place
	return !t.features.TakeAnyServer && (all == nil || all.GetValue())
}

// takesAny says that any certificate is taken. Envoy checks names only together with an authority, so a user who gives names is given
// the usual authorities too.
func (t transport) takesAny(names []string) bool {
	if t.tls.GetInsecureSkipVerify().GetValue() {
		return true
	}
	asked := t.tls.GetCaCertificates() != "" || t.tls.GetCredentialName() != "" || t.tls.GetCaCrl() != "" || len(names) > 0
	return !asked && !t.checksUnasked()
}

// betweenProxies makes the client side of mutual TLS between proxies (mode ISTIO_MUTUAL): with the proxy's own certificate, a
// server name by which gateways find the service without opening TLS, and a protocol name that tells the other proxy from
// applications that speak TLS themselves.
func (t transport) betweenProxies(http *httpProtocol) *tlsv3.UpstreamTlsContext {
	own := t.proxy.Credentials
	if own == (mesh.Credentials{}) { // nobody answers such a call: it is not to go in the clear
		return &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{AlpnProtocols: []string{"istio"}}}
	}
	common := &tlsv3.CommonTlsContext{
		TlsParams:                      certificate.PeerParameters(t.mesh),
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{certificate.Secret(own.Certificate)},
		AlpnProtocols:                  protocolNames(t.port.Protocol, http),
	}
	names := t.tls.GetSubjectAltNames()
	if len(names) == 0 {
		names = inDomains(t.accounts, append([]string{t.mesh.GetTrustDomain()}, t.mesh.GetTrustDomainAliases()...))
	}
	common.ValidationContextType = certificate.Checked(own.Roots, certificate.Validation(names, ""))
	sni := t.tls.GetSni()
	switch {
	case t.service == nil || dynamic(t.service): // who is called is known by the request's host
		http.autoTLSNames(sni == "", len(names) == 0)
	case sni == "":
		sni = t.name.DefaultSNI()
	}
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: sni}
}

// protocolNames returns the ALPN names that a proxy offers to another one, by the declared protocol of the port. Istio's proxies
// choose them for each request, by a filter that Envoy does not have; here only mixed clusters do. If an EnvoyFilter has the cluster speak
// another HTTP version, package patch replaces the names.
func protocolNames(p mesh.Protocol, http *httpProtocol) []string {
	switch {
	case !p.IsHTTP():
		return []string{"istio"}
	case http.only2:
		return certificate.ProtocolNames(certificate.HTTP2)
	case http.follows:
		return certificate.ProtocolNames(certificate.FollowClient)
	default:
		return certificate.ProtocolNames(certificate.HTTP1)
	}
}

func tlsVersions() *tlsv3.TlsParameters {
	return &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3}
}

// mutualBetweenProxies says whether connections of a cluster are secured by the proxies' own certificates.
func (in OutboundInput) mutualBetweenProxies() bool {
	if in.Proxy.Credentials == (mesh.Credentials{}) {
		return false
	}
	p := policy.Of(in.Settings.Mesh, in.rule(), in.Subset, in.Port)
	return p.GetTls().GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL || in.automatic(p) != never
}

// automatic says which endpoints are called with mutual TLS though no user says so (MeshConfig.enableAutoMtls). Where the caller
// chooses the address, endpoints have no metadata to match: then all must take it.
func (in OutboundInput) automatic(p *networking.TrafficPolicy) automatic {
	switch {
	case p.GetTls() != nil, in.Proxy.Credentials == (mesh.Credentials{}), !in.Settings.Mesh.GetEnableAutoMtls().GetValue(),
		in.Service.MeshExternal, dynamic(in.Service):
		return never
	case !in.byAddress(p):
		return whereTaken
	case in.AllTLS:
		return always
	default:
		return never
	}
}
