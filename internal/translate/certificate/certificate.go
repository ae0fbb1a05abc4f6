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

// patience is how long a new cluster or listener waits for a secret. The control plane answers at once or, where there is no
// such secret, not at all: then only what needs it fails, and what came with it need not wait.
const patience = 5 * time.Second

// Secret asks for a secret by its SDS name: the agent for the proxy's own identity, the control plane over ADS for all else.
func Secret(name string) *tlsv3.SdsSecretConfig {
	if name == mesh.OwnCertificate || name == mesh.MeshRoots {
		return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: agentSource(mesh.AgentCluster, 0)} // a listener without them would turn everybody away
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: new(corev3.AggregatedConfigSource)},
		InitialFetchTimeout:   durationpb.New(patience),
		ResourceApiVersion:    corev3.ApiVersion_V3,
	}}
}

// FromAgent asks the proxy's agent for a secret that is a file, by a static cluster (mesh.NodeMetadata.FileServer).
func FromAgent(cluster, name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: agentSource(cluster, patience)}
}

// agentSource is an agent that is asked by a static cluster. A cluster or listener waits for its answer until the timeout; 0 is
// without limit.
func agentSource(cluster string, timeout time.Duration) *corev3.ConfigSource {
	return &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_GRPC, TransportApiVersion: corev3.ApiVersion_V3, SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster},
			}}},
		}},
		InitialFetchTimeout: durationpb.New(timeout),
		ResourceApiVersion:  corev3.ApiVersion_V3,
	}
}

// Validation says which certificates of the other side are taken, but for the authorities: those that have one of the names,
// if there are any, and that are not in the list of revoked ones, a file on the proxy's disk or "".
func Validation(names []string, revoked string) *tlsv3.CertificateValidationContext {
	v := new(tlsv3.CertificateValidationContext)
	for _, name := range names {
		v.MatchTypedSubjectAltNames = append(v.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
			SanType: sanType(name), Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
		})
	}
	if revoked != "" {
		v.Crl = &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: revoked}}
	}
	return v
}

// OfDomain takes certificates with an identity of a trust domain.
func OfDomain(domain string) *tlsv3.SubjectAltNameMatcher {
	return &tlsv3.SubjectAltNameMatcher{
		SanType: tlsv3.SubjectAltNameMatcher_URI,
		Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "spiffe://" + domain + "/"}},
	}
}

// PeerParameters gives versions and curves of mutual TLS between proxies (MeshConfig.meshMTLS): TLS 1.2 at least.
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

// Checked has certificates of the other side checked: against the authorities of the secret trust, an SDS name, and by v.
func Checked(trust string, v *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return CheckedBy(Secret(trust), v)
}

// CheckedBy is Checked with the source of the authorities given.
func CheckedBy(trust *tlsv3.SdsSecretConfig, v *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext: v, ValidationContextSdsSecretConfig: trust,
		},
	}
}
