package grpc

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/model/resource"
)

// reduceCluster keeps of a cluster what gRPC reads (proposals A27, A32, A42, A50). It refuses some fields rather than to ignore
// them, so nothing else stays.
func reduceCluster(of *resource.Resource) *reduced {
	c := new(clusterv3.Cluster)
	decode(of, c)
	if n, err := mesh.ParseClusterName(c.GetName()); err != nil || n.Direction != mesh.Outbound || c.GetType() != clusterv3.Cluster_EDS {
		return keep(of, nil)
	}
	out := &clusterv3.Cluster{
		Name: c.GetName(), ClusterDiscoveryType: c.GetClusterDiscoveryType(), EdsClusterConfig: c.GetEdsClusterConfig(),
		CircuitBreakers: c.GetCircuitBreakers(), OutlierDetection: c.GetOutlierDetection(), Metadata: c.GetMetadata(),
		// Of Envoy's policies all implementations of gRPC have two.
		LbPolicy: clusterv3.Cluster_ROUND_ROBIN, TransportSocket: reduceTransport(c.GetTransportSocket()),
	}
	switch c.GetLbPolicy() {
	case clusterv3.Cluster_RING_HASH:
		out.LbPolicy, out.LbConfig = c.GetLbPolicy(), c.GetLbConfig()
	case clusterv3.Cluster_MAGLEV: // what is hashed by is the same
		out.LbPolicy = clusterv3.Cluster_RING_HASH
	default:
	}
	return keep(of, encode(out.Name, of.TypeURL, out))
}

// Names in gRPC's bootstrap, as Istio's agent writes it, of what has the application's certificate and the roots (proposal A29).
const (
	provider        = "default"
	certificateName = "default"
	rootsName       = "ROOTCA"
)

// reduceTransport has gRPC call with the certificate of the mesh where an Envoy would. TLS of other kinds stays as it is, which gRPC
// refuses: it must not be called in the clear. Nobody is called with TLS who was not said to take it: where Envoy looks at the
// endpoint (automatic mutual TLS) gRPC cannot.
func reduceTransport(s *corev3.TransportSocket) *corev3.TransportSocket {
	t := new(tlsv3.UpstreamTlsContext)
	if s == nil || s.GetTypedConfig().UnmarshalTo(t) != nil {
		return s
	}
	common := t.GetCommonTlsContext()
	secrets, combined := common.GetTlsCertificateSdsSecretConfigs(), common.GetCombinedValidationContext()
	if len(secrets) != 1 || secrets[0].GetName() != mesh.OwnCertificate || combined.GetValidationContextSdsSecretConfig().GetName() != mesh.MeshRoots {
		return s
	}
	out := &tlsv3.UpstreamTlsContext{Sni: t.GetSni(), CommonTlsContext: certificates()}
	v := out.CommonTlsContext.GetValidationContext()
	for _, name := range combined.GetDefaultValidationContext().GetMatchTypedSubjectAltNames() {
		// gRPC does not know the typed form, and looks at names of all types.
		v.MatchSubjectAltNames = append(v.MatchSubjectAltNames, name.GetMatcher()) //nolint:staticcheck // see above
	}
	return socket(out)
}

// certificates has gRPC use the files that its bootstrap names.
func certificates() *tlsv3.CommonTlsContext {
	return &tlsv3.CommonTlsContext{
		TlsCertificateProviderInstance: &tlsv3.CertificateProviderPluginInstance{InstanceName: provider, CertificateName: certificateName},
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			CaCertificateProviderInstance: &tlsv3.CertificateProviderPluginInstance{InstanceName: provider, CertificateName: rootsName},
		}},
	}
}

func socket(m proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(m)}}
}
