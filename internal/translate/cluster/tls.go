package cluster

import (
	"slices"

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

// transport derives the transport socket of a cluster.
type transport struct {
	tls           *networking.ClientTLSSettings
	mesh          *meshconfig.MeshConfig
	features      snapshot.Features
	proxyProtocol *networking.TrafficPolicy_ProxyProtocol
	proxy         Proxy
	// credentials permits tls to name secrets that only selected proxies may read, because the rule
	// selects proxies.
	credentials bool
	// service is nil and port zero for a cluster without a service.
	service *mesh.Service
	port    mesh.Port
	name    mesh.ClusterName
	// accounts are the accounts that may answer for the service.
	accounts []string
	// auto is which endpoints are called with mutual TLS although no user configured TLS.
	auto autoMTLS
}

// autoMTLS is the set of endpoints that are called with automatic mutual TLS.
type autoMTLS int

const (
	noEndpoints autoMTLS = iota
	// declaredEndpoints are the endpoints whose metadata declares mutual TLS.
	declaredEndpoints
	// allEndpoints are all endpoints of the cluster.
	allEndpoints
)

// transport returns the inputs for the transport socket of the cluster. Its field credentials is
// true if there is a DestinationRule with a workloadSelector.
func (in OutboundInput) transport(port mesh.Port, p *networking.TrafficPolicy) transport {
	return transport{
		tls:           p.GetTls(),
		mesh:          in.Settings.Mesh,
		features:      in.Settings.Features,
		proxyProtocol: p.GetProxyProtocol(),
		proxy:         in.Proxy,
		auto:          in.autoMTLS(p),
		credentials: in.Rule != nil &&
			in.Rule.Selects, service: in.Service, port: port, name: in.Name(), accounts: decodeAccounts(in.Accounts),
	}
}

// apply sets the transport socket of c: TLS by the mode of t.tls, a PROXY protocol header before
// it, both or none. Automatic mutual TLS (t.auto) applies to all endpoints or to endpoints that
// declare it. It also sets the TLS names in http.
func (t transport) apply(c *clusterv3.Cluster, http *httpProtocol) {
	mode := t.tls.GetMode()
	switch {
	case mode == networking.ClientTLSSettings_SIMPLE, mode == networking.ClientTLSSettings_MUTUAL:
		c.TransportSocket = t.withProxyProtocol(transportSocket("envoy.transport_sockets.tls", t.clientTLS(http)))
	case t.auto == declaredEndpoints:
		t.matchEndpoints(c, http)
	case t.auto == allEndpoints, mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		t.matchRequests(c, http)
	default:
		c.TransportSocket = t.plaintextSocket()
	}
}

// withProxyProtocol returns a socket that sends a PROXY protocol header before the bytes of inner,
// or inner if no header is configured.
func (t transport) withProxyProtocol(inner *corev3.TransportSocket) *corev3.TransportSocket {
	if t.proxyProtocol == nil {
		return inner
	}
	return transportSocket("envoy.transport_sockets.upstream_proxy_protocol", &proxyprotocolv3.ProxyProtocolUpstreamTransport{
		Config: &corev3.ProxyProtocolConfig{
			Version: corev3.ProxyProtocolConfig_Version(t.proxyProtocol.GetVersion()),
		},
		TransportSocket: inner,
	})
}

// plaintextSocket returns a socket that sends a PROXY protocol header before plaintext, or nil,
// Envoy's default of plaintext alone, if no header is configured.
func (t transport) plaintextSocket() *corev3.TransportSocket {
	if t.proxyProtocol == nil {
		return nil
	}
	return t.withProxyProtocol(transportSocket("envoy.transport_sockets.raw_buffer", &rawbufferv3.RawBuffer{}))
}

// transportSocket returns the transport socket with a name and m as its config. It panics if m
// cannot be encoded.
func transportSocket(name string, m proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       name,
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: resource.Pack(m)},
	}
}

// clientTLS returns the TLS context of modes SIMPLE and MUTUAL, with the cipher suites and curves
// of MeshConfig.tlsDefaults, but not its minimum version, which is for servers. The server's names
// are verified against subjectAltNames, by default the accounts of its ServiceEntry; if acceptsAny,
// nothing is verified. ALPN is "h2" if the cluster uses only HTTP/2. Without sni, http uses the
// request's host as SNI. Unless verification is off, http also verifies the request's host: always
// if it names the destination (isDynamic), otherwise without sni and subjectAltNames.
func (t transport) clientTLS(http *httpProtocol) *tlsv3.UpstreamTlsContext {
	params, defaults := tlsVersions(), t.mesh.GetTlsDefaults()
	params.CipherSuites, params.EcdhCurves = defaults.GetCipherSuites(), defaults.GetEcdhCurves()
	common := &tlsv3.CommonTlsContext{TlsParams: params}
	own, trust := t.secretNames()
	if own != "" {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{certificate.Secret(own)}
	}
	names := t.tls.GetSubjectAltNames()
	if len(names) == 0 && t.service != nil && t.service.Provider.IsEntry() {
		names = t.service.Accounts
	}
	skip := t.acceptsAny(names)
	if skip {
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{
				TrustChainVerification: tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED,
			},
		}
	} else {
		common.ValidationContextType = t.validationContext(trust, names)
	}
	if http.only2 {
		common.AlpnProtocols = []string{"h2"}
	}
	auto := t.tls.GetSni() == ""
	byHost := t.service != nil && isDynamic(t.service) || auto && len(t.tls.GetSubjectAltNames()) == 0
	http.setAutoTLSNames(auto, byHost && !skip && t.verifiesByDefault())
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: t.tls.GetSni()}
}

// verifiesByDefault reports whether the server's certificate is verified if the rule names neither
// authorities nor names. insecureSkipVerify of the rule decides if set. Otherwise it returns false
// if the mesh turned verification off (MeshConfig.verifyCertificateAtClient,
// VERIFY_CERTIFICATE_AT_CLIENT).
func (t transport) verifiesByDefault() bool {
	if own := t.tls.GetInsecureSkipVerify(); own != nil {
		return !own.GetValue()
	}
	all := t.mesh.GetVerifyCertificateAtClient() //nolint:staticcheck // deprecated, and nothing has taken its place
	return !t.features.AcceptAnyServer && (all == nil || all.GetValue())
}

// acceptsAny reports whether any server certificate is accepted: insecureSkipVerify is true, or the
// rule has no authorities, credential, CRL or names, and verification is not the default. Envoy
// verifies names only together with an authority, so a rule with names is verified against the
// default authorities.
func (t transport) acceptsAny(names []string) bool {
	if t.tls.GetInsecureSkipVerify().GetValue() {
		return true
	}
	asked := t.tls.GetCaCertificates() != "" || t.tls.GetCredentialName() != "" || t.tls.GetCaCrl() != "" ||
		len(names) > 0
	return !asked && !t.verifiesByDefault()
}

// meshTLS returns the TLS context of mutual TLS between proxies (mode ISTIO_MUTUAL). Servers must
// have one of subjectAltNames or, if unset, of t.accounts in any of the mesh's trust domains;
// without both, any name is accepted. The SNI is the rule's or names the service. If the request's
// host names the destination, http uses it as SNI if the rule has none, and verifies it unless
// insecureSkipVerify is set. A proxy without credentials gets a context that no server accepts, so
// that nothing is sent in plaintext.
func (t transport) meshTLS(http *httpProtocol) *tlsv3.UpstreamTlsContext {
	own := t.proxy.Credentials
	// No server accepts this call. It must not be sent in plaintext.
	if own == (mesh.Credentials{}) {
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
	case t.service == nil || isDynamic(t.service): // The request's host names the destination.
		http.setAutoTLSNames(sni == "", !t.tls.GetInsecureSkipVerify().GetValue())
	case sni == "":
		sni = t.service.SNI(t.name)
	}
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: sni}
}

// protocolNames returns the ALPN names that a proxy offers to another proxy: "istio" alone unless p
// is HTTP, otherwise by the HTTP version of the cluster. Istio's proxies choose ALPN names for each
// request by a filter that Envoy does not have; here only mixed clusters do (isMixed). If an
// EnvoyFilter changes the cluster's HTTP version, package patch replaces the names.
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

// tlsVersions returns the TLS parameters that permit TLS 1.2 and 1.3, with Envoy's cipher suites
// and curves.
func tlsVersions() *tlsv3.TlsParameters {
	return &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
}

// usesMeshTLS reports whether connections to some or all endpoints of the cluster use mutual TLS
// with the proxies' own certificates. It returns false if the proxies have no certificate.
func (in OutboundInput) usesMeshTLS() bool {
	if in.Proxy.Credentials == (mesh.Credentials{}) {
		return false
	}
	p := policy.Of(in.Settings.Mesh, in.destinationRule(), in.Subset, in.Port)
	return p.GetTls().GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL || in.autoMTLS(p) != noEndpoints
}

// portTLS returns the value of PortTLS for the policy p and the endpoints of the service, which may
// be nil.
func (in OutboundInput) portTLS(p *networking.TrafficPolicy, endpoints *snapshot.EndpointSet) bool {
	if !in.usesOriginalDestination(p) {
		return false
	}
	port, _ := in.Service.ClusterPort(in.Name())
	return slices.Contains(endpoints.TLSPorts(), port.Name)
}

// autoMTLS returns which endpoints are called with automatic mutual TLS, usually the ones that
// declare it. There are none if MeshConfig.enableAutoMtls is off, p has TLS settings, the proxies
// have no certificate, or the service is external or dynamic. If the caller chooses the address,
// there is no endpoint metadata to match: it is all endpoints with in.PortTLS, otherwise none.
func (in OutboundInput) autoMTLS(p *networking.TrafficPolicy) autoMTLS {
	switch {
	case p.GetTls() != nil, in.Proxy.Credentials == (mesh.Credentials{}),
		!in.Settings.Mesh.GetEnableAutoMtls().GetValue(),
		in.Service.MeshExternal, isDynamic(in.Service):
		return noEndpoints
	case !in.usesOriginalDestination(p):
		return declaredEndpoints
	case in.PortTLS:
		return allEndpoints
	default:
		return noEndpoints
	}
}
