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

// isDispensable reports whether the control plane can start without a kind that the API server
// serves. The state of proxies that it configured before stays in use while it waits, but without a
// kind that it does not wait for, they lose what it configures.
//
// Kinds without which traffic flows, and the experimental ones, are dispensable. TrafficExtension
// and the other kinds of the Gateway API and its extensions are dispensable only if denied is set:
// the API server has denied access. That lasts, and older roles do not permit these kinds. Any
// other failure is temporary, and a gateway without its routes would answer 404. All other kinds
// delay the start: a mesh without its VirtualServices or authorization policies behaves
// differently.
func isDispensable(kind api.Kind, denied bool) bool {
	switch kind {
	case api.Node,
		api.Telemetry,
		api.ProxyConfig,
		api.WorkloadGroup,
		api.ServiceExport,
		api.ServiceImport,
		api.XBackendTrafficPolicy,
		api.XMesh,
		api.XBackend:
		return true
	case api.TrafficExtension,
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
		api.InferencePool:
		return denied
	default:
		return false
	}
}
