package ingress

import (
	"cmp"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Service names the Service whose addresses Ingresses have, in the namespace of the gateways (MeshConfig.ingressService). ok is
// false where the mesh names none.
func Service(m *meshconfig.MeshConfig, namespace, domain string) (k mesh.ServiceKey, ok bool) {
	service := m.GetIngressService()
	return mesh.ServiceKey{Namespace: namespace, Host: mesh.Hostname(service + "." + namespace + ".svc." + domain)}, service != ""
}

// LoadBalancer gives what the status of every Ingress that is ours has to say (Ingress.status.loadBalancer): where the Service of
// the gateways is reached from outside. Without such a Service (nil) that is nowhere. It is sorted by hostname and IP.
func LoadBalancer(service *mesh.Service) []networkingv1.IngressLoadBalancerIngress {
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
