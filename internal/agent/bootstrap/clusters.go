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

// The names are those that Istio's users know from config dumps and statistics.
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

// staticClusters are the ones that must exist before, and without, a control plane.
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
		list = append(list, selfDiscovery())
	}
	var errs []error
	for _, build := range []func(Input, family) (*clusterv3.Cluster, error){controlPlane, tracingService, metricsService, accessLogService} {
		c, err := build(in, f)
		if err != nil {
			errs = append(errs, err)
		} else if c != nil {
			list = append(list, c)
		}
	}
	return list, errors.Join(errs...)
}

// controlPlane leads to the agent, which asks the control plane, or straight to the control plane's plaintext port.
func controlPlane(in Input, f family) (*clusterv3.Cluster, error) {
	if in.DiscoverySocket != "" {
		c := socketCluster(xdsCluster, in.DiscoverySocket)
		unlimited(c)
		return c, nil
	}
	if err := plaintext(in.Config); err != nil {
		return nil, err
	}
	c, err := serviceAt("discoveryAddress", xdsCluster, in.Config.GetDiscoveryAddress(), in, f)
	if err != nil {
		return nil, err
	}
	// Longer than for others: a first SYN that is lost is sent again after a second.
	c.ConnectTimeout = durationpb.New(10 * time.Second)
	unlimited(c)
	// Two ways to notice a peer that has vanished: TCP's for idle connections, HTTP/2's for those with a stream. The
	// second finds a control plane behind a broken path within 40 s.
	c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{
		TcpKeepalive: &corev3.TcpKeepalive{KeepaliveTime: wrapperspb.UInt32(300)},
	}
	http2(c,
		// A stream that begins anew takes a new connection, and with it perhaps another replica.
		&corev3.HttpProtocolOptions{MaxRequestsPerConnection: wrapperspb.UInt32(1)},
		&corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
			Interval: durationpb.New(30 * time.Second),
			Timeout:  durationpb.New(10 * time.Second),
		}},
	)
	return c, nil
}

// plaintext refuses what needs TLS.
func plaintext(config *meshconfig.ProxyConfig) error {
	address := config.GetDiscoveryAddress()
	_, port, _ := net.SplitHostPort(address)
	if config.GetControlPlaneAuthPolicy() == meshconfig.AuthenticationPolicy_NONE && port != "15012" {
		return nil
	}
	return fmt.Errorf("control plane %s (controlPlaneAuthPolicy %s): without the agent in between (PROXY_XDS_VIA_AGENT=false) there is no TLS; "+
		"set discoveryAddress to the plaintext port (15010) and controlPlaneAuthPolicy to NONE, in PROXY_CONFIG or the mesh configuration",
		address, config.GetControlPlaneAuthPolicy())
}

// tracingService is where spans go.
func tracingService(in Input, f family) (*clusterv3.Cluster, error) {
	t := tracerOf(in.Config)
	if t.address == "" {
		return nil, nil
	}
	c, err := serviceAt(t.field, t.cluster, t.address, in, f)
	if err != nil {
		return nil, err
	}
	return c, encrypt(c, in.SystemRoots, "tracing.tlsSettings", t.address, in.Config.GetTracing().GetTlsSettings())
}

// metricsService takes Envoy's statistics over gRPC.
func metricsService(in Input, f family) (*clusterv3.Cluster, error) {
	return remoteService("envoyMetricsService", metricsCluster, in.Config.GetEnvoyMetricsService(), in, f)
}

// accessLogService takes access logs over gRPC, from listeners that the control plane configures to send them.
func accessLogService(in Input, f family) (*clusterv3.Cluster, error) {
	return remoteService("envoyAccessLogService", accessLogCluster, in.Config.GetEnvoyAccessLogService(), in, f)
}

func remoteService(field, name string, service *meshconfig.RemoteService, in Input, f family) (*clusterv3.Cluster, error) {
	if service.GetAddress() == "" {
		return nil, nil
	}
	c, err := serviceAt(field+".address", name, service.GetAddress(), in, f)
	if err != nil {
		return nil, err
	}
	if k := service.GetTcpKeepalive(); k != nil {
		c.UpstreamConnectionOptions = &clusterv3.UpstreamConnectionOptions{TcpKeepalive: keepalive(k)}
	}
	http2(c, nil, &corev3.Http2ProtocolOptions{})
	return c, encrypt(c, in.SystemRoots, field+".tlsSettings", service.GetAddress(), service.GetTlsSettings(), "h2")
}

// serviceAt is the cluster of a service whose address the field of ProxyConfig has.
func serviceAt(field, name, address string, in Input, f family) (*clusterv3.Cluster, error) {
	address, err := WithHostIP(address, in.HostIP)
	if err != nil {
		return nil, fieldError(field, err)
	}
	c, err := clusterAt(name, address, f)
	if err != nil {
		return nil, fieldError(field, err)
	}
	return c, nil
}

func fieldError(field string, err error) error {
	return fmt.Errorf("proxy configuration field %q: %w", field, err)
}
