package node

import (
	"cmp"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// unnamed is the service cluster that says nothing; it is replaced by something that does.
const unnamed = "istio-proxy"

// serviceCluster is Node.cluster, which traces show as the service: ProxyConfig.serviceCluster if it was chosen, else as
// ProxyConfig.tracingServiceName says, else "APP.NAMESPACE".
func serviceCluster(config *meshconfig.ProxyConfig, meta mesh.NodeMetadata) string {
	if _, byName := config.GetClusterName().(*meshconfig.ProxyConfig_TracingServiceName_); !byName {
		return chosenOrApp(config.GetServiceCluster(), meta)
	}
	switch config.GetTracingServiceName() {
	case meshconfig.ProxyConfig_CANONICAL_NAME_ONLY:
		return chosenOrApp(canonicalName(meta), meta)
	case meshconfig.ProxyConfig_CANONICAL_NAME_AND_NAMESPACE:
		return canonicalName(meta) + "." + meta.Namespace
	default:
		return chosenOrApp(unnamed, meta)
	}
}

func chosenOrApp(name string, meta mesh.NodeMetadata) string {
	if name != "" && name != unnamed {
		return name
	}
	return cmp.Or(meta.Labels["app"], meta.WorkloadName, unnamed) + "." + meta.Namespace
}

// canonicalName is the service's name as telemetry shows it: by label, else by workload.
func canonicalName(meta mesh.NodeMetadata) string {
	return cmp.Or(
		meta.Labels["service.istio.io/canonical-name"],
		meta.Labels["app.kubernetes.io/name"],
		meta.Labels["app"],
		meta.WorkloadName,
		unnamed,
	)
}
