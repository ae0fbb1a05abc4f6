package bootstrap

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Numbers of socket(7) on Linux: setsockopt(fd, SOL_SOCKET, SO_MARK, …).
const (
	solSocket = 1
	soMark    = 36
)

func clusterManager(in Input) *bootstrapv3.ClusterManager {
	m := &bootstrapv3.ClusterManager{}
	if in.Node.Metadata.EnableSelfDiscovery {
		m.LocalClusterName = mesh.LocalCluster
	}
	if in.OutlierLogPath != "" {
		m.OutlierDetection = &bootstrapv3.ClusterManager_OutlierDetection{EventLogPath: in.OutlierLogPath}
	}
	if in.SocketMark != 0 {
		// Here it covers every cluster, static or sent, except those that have a bind configuration of their own:
		// Envoy does not join the two. Whoever sends such a cluster must repeat the mark (node metadata
		// MESHPILOT_SOCKET_MARK), or its connections are captured and come back to Envoy for ever.
		m.UpstreamBindConfig = &corev3.BindConfig{SocketOptions: []*corev3.SocketOption{{
			Description: "SO_MARK: capture leaves the proxy's own connections alone",
			Level:       solSocket,
			Name:        soMark,
			Value:       &corev3.SocketOption_IntValue{IntValue: int64(in.SocketMark)},
			State:       corev3.SocketOption_STATE_PREBIND,
		}}}
	}
	return m
}
