package bootstrap

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// secretTimeout is how long Envoy's start waits for the certificate of these listeners. Afterwards
// they refuse connections until they have it.
const secretTimeout = time.Second

// secureMetricsListeners returns the listeners with mutual TLS and compression on all interfaces.
// One is of Envoy's own metrics at SecureMetricsPort, one of merged metrics, also under /metrics,
// at SecureMergedMetricsPort. A port of 0 has no listener. A client must present a certificate of
// the mesh.
func secureMetricsListeners(in Input, f family, compressors []*hcmv3.HttpFilter) []*listenerv3.Listener {
	var list []*listenerv3.Listener
	if port := in.SecureMetricsPort; port != 0 {
		list = append(list, newListener(f.wildcards, port, "secure_stats", compressors,
			singlePath{"/stats/prometheus", "/stats/envoy", prometheusCluster}))
	}
	if port := in.SecureMergedMetricsPort; port != 0 {
		list = append(list, newListener(f.wildcards, port, "secure_merged_stats", compressors,
			singlePath{"/stats/prometheus", "", agentCluster}, singlePath{"/metrics", "", agentCluster}))
	}
	for _, l := range list {
		for _, chain := range l.GetFilterChains() {
			chain.TransportSocket = peerTransportSocket()
		}
	}
	return list
}

// peerTransportSocket returns mutual TLS 1.2 or 1.3 for a listener, with the workload's certificate
// and the mesh's roots, both from the agent's SDS server. A client certificate is required. ALPN
// offers h2 and http/1.1.
func peerTransportSocket() *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name: "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: mustPack(&tlsv3.DownstreamTlsContext{
			RequireClientCertificate: wrapperspb.Bool(true),
			CommonTlsContext: &tlsv3.CommonTlsContext{
				TlsParams: &tlsv3.TlsParameters{
					TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
					TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
				},
				AlpnProtocols:                  []string{"h2", "http/1.1"},
				TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{agentSecret(mesh.OwnCertificate)},
				ValidationContextType: &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
					ValidationContextSdsSecretConfig: agentSecret(mesh.MeshRoots),
				},
			},
		})},
	}
}

// agentSecret returns the configuration with which Envoy fetches a secret of the workload's
// identity from the agent's SDS server. Envoy's start waits for it at most secretTimeout.
func agentSecret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			TransportApiVersion:       corev3.ApiVersion_V3,
			SetNodeOnFirstMessageOnly: true,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: secretCluster},
			}}},
		}},
		InitialFetchTimeout: durationpb.New(secretTimeout),
		ResourceApiVersion:  corev3.ApiVersion_V3,
	}}
}
