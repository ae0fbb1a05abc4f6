package listener

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/internal/translate/certificate"
)

// downstreamTLS returns the transport socket with which a chain terminates TLS, or nil if t is nil.
// Client certificates are validated only if t.Trust is set, and required only if t.Required is.
func (b builder) downstreamTLS(t *TLS) *corev3.TransportSocket {
	if t == nil {
		return nil
	}
	common := &tlsv3.CommonTlsContext{AlpnProtocols: t.Protocols, TlsParams: b.tlsParameters(t)}
	for _, name := range t.Certificates {
		common.TlsCertificateSdsSecretConfigs = append(common.TlsCertificateSdsSecretConfigs, t.secret(name))
	}
	if t.Trust != "" {
		common.ValidationContextType = certificate.CheckedBy(t.secret(t.Trust), clientValidation(t))
	}
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: resource.Pack(&tlsv3.DownstreamTlsContext{
			CommonTlsContext:         common,
			RequireClientCertificate: wrapperspb.Bool(t.Required),
		}),
	}}
}

// secret returns the SDS config of the secret with an SDS name. If the name begins with
// mesh.ExternalPrefix and t has a Provider, the Provider serves it under the name without the
// prefix. Otherwise it is certificate.Secret of the name.
func (t *TLS) secret(name string) *tlsv3.SdsSecretConfig {
	external, ok := strings.CutPrefix(name, mesh.ExternalPrefix)
	if cluster := t.providerCluster(); ok && cluster != "" {
		return certificate.FromProvider(cluster, t.Provider.Authority, external)
	}
	return certificate.Secret(name)
}

// tlsParameters returns the parameters for t.Parameters; nil is Envoy's defaults. For a server
// these are ciphers and minimum TLS version of the server, else the mesh's
// (MeshConfig.tlsDefaults), else Envoy's defaults. The maximum version is only the server's, the
// curves are only the mesh's.
func (b builder) tlsParameters(t *TLS) *tlsv3.TlsParameters {
	switch t.Parameters {
	case peerParameters:
		return certificate.PeerParameters(b.settings.Mesh)
	case envoyParameters:
		return nil
	}
	defaults := b.settings.Mesh.GetTlsDefaults()
	p := &tlsv3.TlsParameters{
		EcdhCurves: defaults.GetEcdhCurves(), CipherSuites: defaults.GetCipherSuites(),
		TlsMinimumProtocolVersion: meshTLSVersion(defaults.GetMinProtocolVersion()),
	}
	if len(t.Ciphers) > 0 {
		p.CipherSuites = t.Ciphers
	}
	if v := tlsv3.TlsParameters_TlsProtocol(tlsv3.TlsParameters_TlsProtocol_value[t.MinVersion]); v != 0 {
		p.TlsMinimumProtocolVersion = v
	}
	p.TlsMaximumProtocolVersion = tlsv3.TlsParameters_TlsProtocol(tlsv3.TlsParameters_TlsProtocol_value[t.MaxVersion])
	return p
}

// meshTLSVersion returns Envoy's name of a TLS version, or TLS_AUTO (Envoy's default) for an unset
// one.
func meshTLSVersion(v meshconfig.MeshConfig_TLSConfig_TLSProtocol) tlsv3.TlsParameters_TlsProtocol {
	switch v {
	case meshconfig.MeshConfig_TLSConfig_TLSV1_2:
		return tlsv3.TlsParameters_TLSv1_2
	case meshconfig.MeshConfig_TLSConfig_TLSV1_3:
		return tlsv3.TlsParameters_TLSv1_3
	default:
		return tlsv3.TlsParameters_TLS_AUTO
	}
}

// clientValidation returns how certificates of clients are verified (names, domains, hashes,
// revocation), without the authorities. If t.Unchecked is set, untrusted certificates are accepted.
func clientValidation(t *TLS) *tlsv3.CertificateValidationContext {
	v := certificate.Validation(t.Names, t.RevocationFile)
	for _, domain := range t.Domains {
		v.MatchTypedSubjectAltNames = append(v.MatchTypedSubjectAltNames, certificate.OfDomain(domain))
	}
	v.VerifyCertificateHash, v.VerifyCertificateSpki = t.Hashes, t.Keys
	if t.Unchecked {
		v.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
	}
	return v
}
