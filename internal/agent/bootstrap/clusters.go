package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Cluster names, as in Istio's config dumps and statistics.
const (
	prometheusCluster = "prometheus_stats"
	agentCluster      = "agent"
	secretCluster     = mesh.AgentCluster
	fileSecretCluster = mesh.AgentFilesCluster
	zipkinCluster     = "zipkin"
	datadogCluster    = "datadog_agent"
	metricsCluster    = "envoy_metrics_service"
	accessLogCluster  = "envoy_accesslog_service"
)

// staticClusters returns the clusters that Envoy needs before it has configuration. These are the
// agent's status port (twice) and the control plane, and if configured SDS sockets, self-discovery,
// tracing, metrics and access log service. Errors of all are joined, and the clusters without an
// error are returned too.
func staticClusters(in Input, f family) ([]*clusterv3.Cluster, error) {
	list := []*clusterv3.Cluster{
		localCluster(prometheusCluster, uint32(in.Config.GetStatusPort()), f),
		localCluster(agentCluster, uint32(in.Config.GetStatusPort()), f),
	}
	if in.IdentitySocket != "" {
		list = append(list, socketCluster(secretCluster, in.IdentitySocket))
	}
	if in.FileSocket != "" {
		list = append(list, socketCluster(fileSecretCluster, in.FileSocket))
	}
	if in.Node.Metadata.EnableSelfDiscovery {
		list = append(list, selfDiscoveryCluster())
	}
	var errs []error
	for _, build := range []func(Input, family) (*clusterv3.Cluster, error){
		controlPlaneCluster, tracingCluster, metricsServiceCluster, accessLogServiceCluster,
	} {
		c, err := build(in, f)
		if err != nil {
			errs = append(errs, err)
		} else if c != nil {
			list = append(list, c)
		}
	}
	return list, errors.Join(errs...)
}

// controlPlaneCluster returns the xDS cluster: the agent's socket if there is one, otherwise
// ProxyConfig.discoveryAddress in plaintext, with keepalives and one request per connection. Both
// have raised circuit breakers. Without the socket, it returns an error if checkPlaintext refuses
// the configuration or the address is invalid.
func controlPlaneCluster(in Input, f family) (*clusterv3.Cluster, error) {
	if in.DiscoverySocket != "" {
		c := socketCluster(xdsCluster, in.DiscoverySocket)
		raiseCircuitBreakers(c)
		return c, nil
	}
	if err := checkPlaintext(in.Config); err != nil {
		return nil, err
	}
	c, err := serviceCluster("discoveryAddress", xdsCluster, in.Config.GetDiscoveryAddress(), in, f)
	if err != nil {
		return nil, err
	}
	// Longer than for other clusters, because a lost first SYN is retransmitted after a second.
	c.ConnectTimeout = durationpb.New(10 * time.Second)
	raiseCircuitBreakers(c)
	// Two mechanisms detect a vanished peer: TCP keepalive on idle connections, HTTP/2 keepalive on
	// those with a stream. The second detects a broken path within 40 s.
	c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{
		TcpKeepalive: &corev3.TcpKeepalive{KeepaliveTime: wrapperspb.UInt32(300)},
	}
	enableHTTP2(c,
		// A new stream uses a new connection, so that it may reach another replica.
		&corev3.HttpProtocolOptions{MaxRequestsPerConnection: wrapperspb.UInt32(1)},
		&corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
			Interval: durationpb.New(30 * time.Second),
			Timeout:  durationpb.New(10 * time.Second),
		}},
	)
	return c, nil
}

// checkPlaintext returns nil if controlPlaneAuthPolicy is NONE and the port of discoveryAddress is
// not 15012, otherwise an error that explains the remedy. Without the agent Envoy can use only the
// control plane's plaintext port.
func checkPlaintext(config *meshconfig.ProxyConfig) error {
	address := config.GetDiscoveryAddress()
	_, port, _ := net.SplitHostPort(address)
	if config.GetControlPlaneAuthPolicy() == meshconfig.AuthenticationPolicy_NONE && port != "15012" {
		return nil
	}
	return fmt.Errorf("control plane %s (controlPlaneAuthPolicy %s): "+
		"TLS requires the agent as xDS proxy, but PROXY_XDS_VIA_AGENT=false; "+
		"set discoveryAddress to the plaintext port (15010) and controlPlaneAuthPolicy to NONE, "+
		"in PROXY_CONFIG or the mesh configuration",
		address, config.GetControlPlaneAuthPolicy())
}

// tracingCluster returns the cluster that receives spans (newTracer), or nil if no tracer has an
// address. It sets TLS by tracing.tlsSettings. An invalid address or TLS setting is an error; after
// the latter the cluster is returned too.
func tracingCluster(in Input, f family) (*clusterv3.Cluster, error) {
	t := newTracer(in.Config)
	if t.address == "" {
		return nil, nil
	}
	c, err := serviceCluster(t.field, t.cluster, t.address, in, f)
	if err != nil {
		return nil, err
	}
	return c, configureTLS(c, in.SystemRoots, "tracing.tlsSettings", t.address, in.Config.GetTracing().GetTlsSettings())
}

// metricsServiceCluster returns the cluster that receives Envoy's statistics over gRPC, nil if
// envoyMetricsService has no address. An invalid address or TLS setting is an error.
func metricsServiceCluster(in Input, f family) (*clusterv3.Cluster, error) {
	return remoteServiceCluster("envoyMetricsService", metricsCluster, in.Config.GetEnvoyMetricsService(), in, f)
}

// accessLogServiceCluster returns the cluster that receives access logs over gRPC, nil if
// envoyAccessLogService has no address. An invalid address or TLS setting is an error. Listeners of
// the control plane refer to the cluster.
func accessLogServiceCluster(in Input, f family) (*clusterv3.Cluster, error) {
	return remoteServiceCluster("envoyAccessLogService", accessLogCluster, in.Config.GetEnvoyAccessLogService(), in, f)
}

// remoteServiceCluster returns the gRPC cluster of a RemoteService, with its TLS and keepalive
// settings, or nil if it has no address. It returns an error, which names field, the service's
// field in ProxyConfig, if the address is invalid or the TLS settings are not supported. In the
// latter case the cluster is returned too, but without TLS, and must not be used.
func remoteServiceCluster(
	field, name string, service *meshconfig.RemoteService, in Input, f family,
) (*clusterv3.Cluster, error) {
	if service.GetAddress() == "" {
		return nil, nil
	}
	c, err := serviceCluster(field+".address", name, service.GetAddress(), in, f)
	if err != nil {
		return nil, err
	}
	if k := service.GetTcpKeepalive(); k != nil {
		c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: tcpKeepalive(k)}
	}
	enableHTTP2(c, nil, &corev3.Http2ProtocolOptions{})
	settings := service.GetTlsSettings()
	return c, configureTLS(c, in.SystemRoots, field+".tlsSettings", service.GetAddress(), settings, "h2")
}

// serviceCluster returns the cluster of an address in ProxyConfig, host:port, without TLS and with
// a reference to the host's IP replaced. It returns an error, which names the ProxyConfig field, if
// the address is invalid or the host's IP is needed but not known.
func serviceCluster(field, name, address string, in Input, f family) (*clusterv3.Cluster, error) {
	address, err := SubstituteHostIP(address, in.HostIP)
	if err != nil {
		return nil, fieldError(field, err)
	}
	c, err := addressCluster(name, address, f)
	if err != nil {
		return nil, fieldError(field, err)
	}
	return c, nil
}

// fieldError returns err with the name of the field in ProxyConfig before it.
func fieldError(field string, err error) error {
	return fmt.Errorf("proxy configuration field %q: %w", field, err)
}
