package certificate

import (
	"net/netip"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"google.golang.org/protobuf/types/known/durationpb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// fetchTimeout is how long a new cluster or listener waits for a secret. The control plane answers
// immediately, or never if the secret does not exist. After the timeout only connections that need
// the secret fail, and warming of other resources continues.
const fetchTimeout = 5 * time.Second

// Secret returns the SDS config of a secret. mesh.OwnCertificate and mesh.MeshRoots come from the
// agent and are awaited without limit. All other secrets are awaited for fetchTimeout: they come
// over ADS or, if the name begins with mesh.ExternalPrefix, from mesh.CredentialServerCluster.
func Secret(name string) *tlsv3.SdsSecretConfig {
	if strings.HasPrefix(name, mesh.ExternalPrefix) {
		return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: serverSource(mesh.CredentialServerCluster, fetchTimeout)}
	}
	if name == mesh.OwnCertificate || name == mesh.MeshRoots {
		// No timeout: a listener without its roots would reject every client.
		return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: serverSource(mesh.AgentCluster, 0)}
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
		InitialFetchTimeout:   durationpb.New(fetchTimeout),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}

// FromAgent returns the SDS config of a secret that the proxy's agent reads from files, awaited for
// fetchTimeout. cluster is the static cluster of the agent (mesh.NodeMetadata.FileServer).
func FromAgent(cluster, name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: serverSource(cluster, fetchTimeout)}
}

// FromProvider returns the SDS config of a secret that an SDS server in the mesh has, awaited for
// fetchTimeout. cluster is its cluster, and authority that of requests to it.
func FromProvider(cluster, authority, name string) *tlsv3.SdsSecretConfig {
	source := serverSource(cluster, fetchTimeout)
	for _, s := range source.GetApiConfigSource().GetGrpcServices() {
		s.GetEnvoyGrpc().Authority = authority
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: source}
}

// serverSource returns a config source that an SDS server, such as the proxy's agent, serves
// through a cluster. timeout is how long a new cluster or listener waits for its resource; 0 means
// without limit.
func serverSource(cluster string, timeout time.Duration) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster},
			}}},
		}},
		InitialFetchTimeout: durationpb.New(timeout),
		ResourceApiVersion:  corev3.ApiVersion_V3,
	}
}

// Validation returns a validation context without trusted authorities. If names is not empty, peers
// must have at least one of them as subject alternative name of the type that sanType derives.
// revoked is a file of revocation lists on the proxy's disk, or "".
func Validation(names []string, revoked string) *tlsv3.CertificateValidationContext {
	v := new(tlsv3.CertificateValidationContext)
	for _, name := range names {
		v.MatchTypedSubjectAltNames = append(v.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
			SanType: sanType(name), Matcher: &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name},
			},
		})
	}
	if revoked != "" {
		v.Crl = &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: revoked}}
	}
	return v
}

// OfDomain returns a matcher of certificates with a URI that begins with "spiffe://DOMAIN/", which
// is a SPIFFE ID of that trust domain.
func OfDomain(domain string) *tlsv3.SubjectAltNameMatcher {
	return &tlsv3.SubjectAltNameMatcher{
		SanType: tlsv3.SubjectAltNameMatcher_URI,
		Matcher: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "spiffe://" + domain + "/"},
		},
	}
}

// PeerParameters returns the TLS versions, curves and cipher suites of mutual TLS between proxies,
// from MeshConfig.meshMTLS. The minimum is TLS 1.2, or 1.3 if meshMTLS requires that; the maximum
// is 1.3. Curves and suites that are unset are Envoy's.
func PeerParameters(m *meshconfig.MeshConfig) *tlsv3.TlsParameters {
	p := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
		EcdhCurves: m.GetMeshMTLS().GetEcdhCurves(), CipherSuites: m.GetMeshMTLS().GetCipherSuites(),
	}
	if m.GetMeshMTLS().GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 {
		p.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
	}
	return p
}

// sanType returns the type of a subject alternative name, derived from its form because the API
// does not state it: an IP address, else URI if it contains "://", email if it contains "@",
// otherwise DNS.
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

// Checked returns a validation context that requires peer certificates to chain to the authorities
// in the secret trust (an SDS name) and to satisfy v.
func Checked(trust string, v *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return CheckedBy(Secret(trust), v)
}

// CheckedBy returns a validation context that requires peer certificates to chain to the
// authorities in the secret trust and to satisfy v.
func CheckedBy(
	trust *tlsv3.SdsSecretConfig,
	v *tlsv3.CertificateValidationContext,
) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext: v, ValidationContextSdsSecretConfig: trust,
		},
	}
}
