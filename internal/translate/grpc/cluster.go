package grpc

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// reduceCluster pairs a cluster with a copy that has only the fields that gRPC reads (proposals
// A27, A32, A42, A50). gRPC refuses some unsupported fields instead of ignoring them, so all others
// are removed. Load balancing is ROUND_ROBIN, or RING_HASH, which replaces MAGLEV, too. The copy
// (made) is nil if the cluster is not outbound or does not use EDS.
func reduceCluster(of *resource.Resource) *reduced {
	c := new(clusterv3.Cluster)
	decodeResource(of, c)
	if n, err := mesh.ParseClusterName(c.GetName()); err != nil || n.Direction != mesh.Outbound ||
		c.GetType() != clusterv3.Cluster_EDS {
		return keepTogether(of, nil)
	}
	out := &clusterv3.Cluster{
		Name: c.GetName(), ClusterDiscoveryType: c.GetClusterDiscoveryType(), EdsClusterConfig: c.GetEdsClusterConfig(),
		CircuitBreakers: c.GetCircuitBreakers(), OutlierDetection: c.GetOutlierDetection(), Metadata: c.GetMetadata(),
		// All implementations of gRPC support only two of Envoy's policies.
		LbPolicy: clusterv3.Cluster_ROUND_ROBIN, TransportSocket: reduceTransport(c.GetTransportSocket()),
	}
	switch c.GetLbPolicy() {
	case clusterv3.Cluster_RING_HASH:
		out.LbPolicy, out.LbConfig = c.GetLbPolicy(), c.GetLbConfig()
	case clusterv3.Cluster_MAGLEV: // with the same hash input
		out.LbPolicy = clusterv3.Cluster_RING_HASH
	default:
	}
	return keepTogether(of, encodeResource(out.Name, of.TypeURL, out))
}

// Names in gRPC's bootstrap, as written by Istio's agent, of the provider of the application's
// certificate and roots (proposal A29).
const (
	provider        = "default"
	certificateName = "default"
	rootsName       = "ROOTCA"
)

// reduceTransport returns the TLS settings of a cluster for gRPC. Mutual TLS with the mesh's
// certificate refers to the files of gRPC's bootstrap. Other TLS settings are returned unchanged,
// and gRPC refuses them: these services must not be called in plaintext. nil, which includes
// automatic mutual TLS, stays nil: gRPC cannot select TLS by endpoint metadata, and calls such
// endpoints in plaintext.
func reduceTransport(s *corev3.TransportSocket) *corev3.TransportSocket {
	t := new(tlsv3.UpstreamTlsContext)
	if s == nil || s.GetTypedConfig().UnmarshalTo(t) != nil {
		return s
	}
	common := t.GetCommonTlsContext()
	secrets, combined := common.GetTlsCertificateSdsSecretConfigs(), common.GetCombinedValidationContext()
	if len(secrets) != 1 || secrets[0].GetName() != mesh.OwnCertificate ||
		combined.GetValidationContextSdsSecretConfig().GetName() != mesh.MeshRoots {
		return s
	}
	out := &tlsv3.UpstreamTlsContext{Sni: t.GetSni(), CommonTlsContext: certificates()}
	v := out.CommonTlsContext.GetValidationContext()
	for _, name := range combined.GetDefaultValidationContext().GetMatchTypedSubjectAltNames() {
		// gRPC does not support the typed form, and compares names of all types.
		v.MatchSubjectAltNames = append(v.MatchSubjectAltNames, name.GetMatcher()) //nolint:staticcheck // see above
	}
	return tlsSocket(out)
}

// certificates returns a TLS context with the certificate and the roots that gRPC's bootstrap
// names.
func certificates() *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		TlsCertificateProviderInstance: &tlsv3.CertificateProviderPluginInstance{
			InstanceName:    provider,
			CertificateName: certificateName,
		},
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{
				CaCertificateProviderInstance: &tlsv3.CertificateProviderPluginInstance{
					InstanceName:    provider,
					CertificateName: rootsName,
				},
			},
		},
	}
}

// tlsSocket returns the TLS transport socket with m, the TLS context, as its config.
func tlsSocket(m proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packAny(m)},
	}
}
