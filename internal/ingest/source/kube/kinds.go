package kube

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// ServiceKinds returns the kinds that services and workloads are converted from. Remote clusters
// are read for these.
func ServiceKinds() []api.Kind {
	return []api.Kind{api.Namespace, api.Node, api.Service, api.EndpointSlice, api.Pod}
}

// ClusterSetKinds returns the kinds of the Multi-Cluster Services API.
func ClusterSetKinds() []api.Kind { return []api.Kind{api.ServiceExport, api.ServiceImport} }

// ConfigKinds returns the kinds of rules that users write: Ingress, IngressClass, and all custom
// kinds except ClusterSetKinds.
func ConfigKinds() []api.Kind {
	list := []api.Kind{api.Ingress, api.IngressClass}
	for _, k := range api.Kinds() {
		if k.Custom && !slices.Contains(ClusterSetKinds(), k.Kind) {
			list = append(list, k.Kind)
		}
	}
	return list
}

// isDispensable reports whether the control plane can start without a kind. These are Node,
// Telemetry, ProxyConfig, WorkloadGroup, TrafficExtension, and all kinds of the Gateway API, its
// extensions and the Multi-Cluster Services API. All other kinds delay the start: a mesh without
// its VirtualServices or authorization policies behaves differently.
func isDispensable(kind api.Kind) bool {
	switch kind {
	case api.Node,
		api.Telemetry,
		api.ProxyConfig,
		api.WorkloadGroup,
		api.TrafficExtension,
		api.ServiceExport,
		api.ServiceImport,
		api.GatewayClass,
		api.KubernetesGateway,
		api.HTTPRoute,
		api.GRPCRoute,
		api.TLSRoute,
		api.TCPRoute,
		api.UDPRoute,
		api.ListenerSet,
		api.ReferenceGrant,
		api.BackendTLSPolicy,
		api.XBackendTrafficPolicy,
		api.XMesh,
		api.XBackend,
		api.InferencePool:
		return true
	default:
		return false
	}
}
