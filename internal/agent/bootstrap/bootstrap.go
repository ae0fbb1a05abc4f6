package bootstrap

import (
	"errors"
	"net/netip"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/agent/node"
)

// Input is what a bootstrap is made of.
type Input struct {
	Node node.Node
	// Config is the effective ProxyConfig, already validated.
	Config *meshconfig.ProxyConfig
	// StatusPort and PrometheusPort are where Envoy serves readiness and metrics (15021, 15090).
	StatusPort, PrometheusPort uint32
	// MetricsForLocalhost has the latter on loopback alone.
	MetricsForLocalhost bool
	// SocketMark is the SO_MARK of every connection that Envoy opens, 0 for none.
	SocketMark uint32
	// HostIP replaces $(HOST_IP) in addresses.
	HostIP string
	// Statsd is Config.statsdUdpAddress resolved, as Envoy does not resolve it; the zero value if there is none.
	Statsd netip.AddrPort
	// CountConnections keeps the statistics that draining down to zero connections needs.
	CountConnections bool
	// DiscoverySocket is the Unix socket at which the agent serves configuration; "": Envoy asks the control plane itself.
	DiscoverySocket string
	// IdentitySocket is the Unix socket at which secrets are served, FileSocket that for files where it is another; "": none.
	IdentitySocket, FileSocket string
	// SystemRoots is the file with the certificate authorities of the operating system.
	SystemRoots string
	// StateOfTheWorld asks the control plane for the whole state of a type each time, rather than differences.
	StateOfTheWorld bool
	LogJSON         bool
	// OutlierLogPath is where Envoy logs ejected hosts, "" for nowhere.
	OutlierLogPath string
}

// Build makes the bootstrap. All that is wrong with the input is reported at once.
func Build(in Input) (*bootstrapv3.Bootstrap, error) {
	family := familyOf(in.Node.Addresses)
	clusters, clustersErr := staticClusters(in, family)
	stats, statsErr := statsConfig(in)
	flush, flushErr := statsFlush(in)
	tracing, tracingErr := tracing(in)
	compressors, compressorsErr := compressors(in)
	if err := errors.Join(clustersErr, statsErr, flushErr, tracingErr, compressorsErr); err != nil {
		return nil, err
	}
	b := &bootstrapv3.Bootstrap{
		Node:                 in.Node.Proto(),
		Admin:                admin(in, family),
		DynamicResources:     dynamicResources(in),
		ClusterManager:       clusterManager(in),
		LayeredRuntime:       runtime(in.Config),
		OverloadManager:      overload(in.Config),
		ApplicationLogConfig: applicationLog(in.LogJSON),
		StatsConfig:          stats,
		StatsSinks:           statsSinks(in),
		// Most clusters of a mesh are never called by one proxy. Measured: a third of the memory at 4,000 clusters.
		DeferredStatOptions: &bootstrapv3.Bootstrap_DeferredStatOptions{EnableDeferredCreationStats: true},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{
			Clusters:  clusters,
			Listeners: staticListeners(in, family, compressors),
		},
		Tracing: tracing, //nolint:staticcheck // deprecated for HCM's own provider, which the control plane may set and which counts before this
	}
	flush.apply(b)
	return b, nil
}
