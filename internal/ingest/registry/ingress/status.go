package ingress

import (
	"cmp"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ServiceKey returns the key of the Service whose addresses are written to the status of Ingresses,
// in the namespace of the gateways (MeshConfig.ingressService). ok is false if MeshConfig names
// none.
func ServiceKey(m *meshconfig.MeshConfig, namespace, domain string) (k mesh.ServiceKey, ok bool) {
	service := m.GetIngressService()
	return mesh.ServiceKey{
		Namespace: namespace,
		Host:      mesh.Hostname(service + "." + namespace + ".svc." + domain),
	}, service != ""
}

// LoadBalancerStatus returns the value of Ingress.status.loadBalancer for all served Ingresses: the
// external addresses of the gateways' Service, sorted by hostname and IP. For a Service of type
// ExternalName (mesh.Alias) it is the target's name. It returns nil if service is nil.
func LoadBalancerStatus(service *mesh.Service) []networkingv1.IngressLoadBalancerIngress {
	if service == nil {
		return nil
	}
	addresses := service.External
	if service.Resolution == mesh.Alias {
		addresses = []string{string(service.AliasOf)}
	}
	list := make([]networkingv1.IngressLoadBalancerIngress, 0, len(addresses))
	for _, a := range addresses {
		if _, err := netip.ParseAddr(a); err == nil {
			list = append(list, networkingv1.IngressLoadBalancerIngress{IP: a})
		} else {
			list = append(list, networkingv1.IngressLoadBalancerIngress{Hostname: a})
		}
	}
	slices.SortFunc(list, func(a, b networkingv1.IngressLoadBalancerIngress) int {
		return cmp.Or(cmp.Compare(a.Hostname, b.Hostname), cmp.Compare(a.IP, b.IP))
	})
	return list
}
