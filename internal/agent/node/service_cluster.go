package node

import (
	"cmp"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// defaultServiceCluster is Istio's uninformative default name, which is replaced by a better one if
// possible.
const defaultServiceCluster = "istio-proxy"

// serviceCluster returns Node.cluster, which tracing shows as the service name. If
// ProxyConfig.tracingServiceName is set, it is the canonical name, alone or with the namespace, or
// "APP.NAMESPACE". Otherwise it is ProxyConfig.serviceCluster. Except with the namespace, an empty
// or default name is replaced by "APP.NAMESPACE" (nameOrApp).
func serviceCluster(config *meshconfig.ProxyConfig, meta mesh.NodeMetadata) string {
	if _, byName := config.GetClusterName().(*meshconfig.ProxyConfig_TracingServiceName_); !byName {
		return nameOrApp(config.GetServiceCluster(), meta)
	}
	switch config.GetTracingServiceName() {
	case meshconfig.ProxyConfig_CANONICAL_NAME_ONLY:
		return nameOrApp(canonicalName(meta), meta)
	case meshconfig.ProxyConfig_CANONICAL_NAME_AND_NAMESPACE:
		return canonicalName(meta) + "." + meta.Namespace
	default:
		return nameOrApp(defaultServiceCluster, meta)
	}
}

// nameOrApp returns name, or "APP.NAMESPACE" if name is empty or the default. APP is the label app,
// or else the workload's name. Without both, APP is the default name.
func nameOrApp(name string, meta mesh.NodeMetadata) string {
	if name != "" && name != defaultServiceCluster {
		return name
	}
	return cmp.Or(meta.Labels["app"], meta.WorkloadName, defaultServiceCluster) + "." + meta.Namespace
}

// canonicalName returns the canonical service name of telemetry: the first set label of
// service.istio.io/canonical-name, app.kubernetes.io/name and app. Without them it is the
// workload's name, or defaultServiceCluster if that is empty.
func canonicalName(meta mesh.NodeMetadata) string {
	return cmp.Or(
		meta.Labels["service.istio.io/canonical-name"],
		meta.Labels["app.kubernetes.io/name"],
		meta.Labels["app"],
		meta.WorkloadName,
		defaultServiceCluster,
	)
}
