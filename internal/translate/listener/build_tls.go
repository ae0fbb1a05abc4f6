package listener

import (
	"net/netip"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// secretPatience is how long a listener stays shut for a secret. The control plane answers at once or, where there is no
// such secret, not at all: then only connections that need it fail, rather than all of the listener's.
const secretPatience = 5 * time.Second

// downstreamTLS writes the server's side of TLS, nil for none.
func (b builder) downstreamTLS(t *TLS) *corev3.TransportSocket {
	if t == nil {
		return nil
	}
	common := &tlsv3.CommonTlsContext{AlpnProtocols: t.Protocols, TlsParams: b.tlsParameters(t)}
	for _, name := range t.Certificates {
		common.TlsCertificateSdsSecretConfigs = append(common.TlsCertificateSdsSecretConfigs, secretBySDS(name))
	}
	if t.Trust != "" {
		common.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext:         clientValidation(t),
				ValidationContextSdsSecretConfig: secretBySDS(t.Trust),
			},
		}
	}
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: packed(&tlsv3.DownstreamTlsContext{CommonTlsContext: common, RequireClientCertificate: wrapperspb.Bool(t.Required)}),
	}}
}

// tlsParameters gives versions, ciphers and curves: the server's, else the mesh's (MeshConfig.tlsDefaults), else Envoy's own.
func (b builder) tlsParameters(t *TLS) *tlsv3.TlsParameters {
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

// clientValidation says which certificates of clients are taken, but for the authorities.
func clientValidation(t *TLS) *tlsv3.CertificateValidationContext {
	v := &tlsv3.CertificateValidationContext{VerifyCertificateHash: t.Hashes, VerifyCertificateSpki: t.Keys}
	if t.Unchecked {
		v.TrustChainVerification = tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED
	}
	if t.RevocationFile != "" {
		v.Crl = &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: t.RevocationFile}}
	}
	for _, name := range t.Names {
		v.MatchTypedSubjectAltNames = append(v.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
			SanType: sanType(name), Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
		})
	}
	return v
}

// sanType says what kind of name a subjectAltName is, which the API does not.
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

func secretBySDS(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
		InitialFetchTimeout:   durationpb.New(secretPatience),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}
