package kube

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

// ServiceKinds are what services and workloads of a cluster are made of. Remote clusters are read for these.
func ServiceKinds() []api.Kind {
	return []api.Kind{api.Namespace, api.Node, api.Service, api.EndpointSlice, api.Pod}
}

// ClusterSetKinds are those of the Multi-Cluster Services API.
func ClusterSetKinds() []api.Kind { return []api.Kind{api.ServiceExport, api.ServiceImport} }

// ConfigKinds are the kinds that people write rules in: Istio's, Ingress, and the Gateway API's.
func ConfigKinds() []api.Kind {
	list := []api.Kind{api.Ingress, api.IngressClass}
	for _, k := range api.Kinds() {
		if k.Custom && !slices.Contains(ClusterSetKinds(), k.Kind) {
			list = append(list, k.Kind)
		}
	}
	return list
}

// dispensable kinds are those without which a control plane may start: calls go where they went, and to nobody whom they did
// not go to before. All others are waited for, for a mesh without its routes or its authorization policies is another mesh.
func dispensable(kind api.Kind) bool {
	switch kind {
	case api.Node, api.Telemetry, api.ProxyConfig, api.WorkloadGroup, api.TrafficExtension, api.ServiceExport, api.ServiceImport,
		api.GatewayClass, api.KubernetesGateway, api.HTTPRoute, api.GRPCRoute, api.TLSRoute, api.TCPRoute, api.UDPRoute,
		api.ListenerSet, api.ReferenceGrant, api.BackendTLSPolicy:
		return true
	default:
		return false
	}
}
