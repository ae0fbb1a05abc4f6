package ingress

import (
	networkingv1 "k8s.io/api/networking/v1"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// State has the objects and services of the newest snapshot.
type State interface {
	// Config returns an object, or nil.
	Config(config.Key) *config.Config
	// Service returns a service, or nil.
	Service(mesh.ServiceKey) *mesh.Service
}

// AddressesOf returns the addresses of an Ingress: those of the gateways' Service. If m names no
// Service, they are those of the nodes that run the gateways. known is false if the Ingress or the
// Service does not exist, or the mesh does not serve the Ingress. It may be called by any
// goroutine.
func (c *Converter) AddressesOf(
	s State,
	m *meshconfig.MeshConfig,
	k config.Key,
) (list []networkingv1.IngressLoadBalancerIngress, known bool) {
	object := s.Config(k)
	if object == nil {
		return nil, false
	}
	spec := config.Spec[*networkingv1.Ingress](object)
	var class *networkingv1.IngressClass
	if name := spec.Spec.IngressClassName; name != nil {
		if c := s.Config(config.Key{Kind: api.IngressClass, Name: *name}); c != nil {
			class = config.Spec[*networkingv1.IngressClass](c)
		}
	}
	if !IsServed(m, spec, class) {
		return nil, false
	}
	service, named := ServiceKey(m, c.options.Namespace, c.options.Domain)
	if !named {
		return LoadBalancerStatus(&mesh.Service{External: c.NodeAddresses()}), true
	}
	svc := s.Service(service)
	if svc == nil {
		return nil, false
	}
	return LoadBalancerStatus(svc), true
}
