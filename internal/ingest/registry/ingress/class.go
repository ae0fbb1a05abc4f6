package ingress

import (
	networkingv1 "k8s.io/api/networking/v1"

	"istio.io/api/annotation"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// controller is the name by which an IngressClass says that its Ingresses are Istio's (IngressClass.spec.controller).
const controller = "istio.io/ingress-controller"

// settings is what of MeshConfig is about Ingresses.
type settings struct {
	mode  meshconfig.MeshConfig_IngressControllerMode
	class string
	// gateways is the value of the label "istio" of the gateways that serve Ingresses.
	gateways string
}

func settingsOf(m *meshconfig.MeshConfig) settings {
	s := settings{mode: m.GetIngressControllerMode(), class: m.GetIngressClass(), gateways: "ingressgateway"}
	switch selector, service := m.GetIngressSelector(), m.GetIngressService(); {
	case selector != "":
		s.gateways = selector
	case service != "" && service != "istio-ingressgateway":
		s.gateways = service // the label is called like the Service, but for the Service of a default installation
	}
	return s
}

// Ours says whether an Ingress is one that the mesh serves. class is the IngressClass that it names, nil if it names none or there
// is none of that name.
//
// The annotation goes before the class, as it did before there were classes. An Ingress without either is the mesh's in mode DEFAULT
// alone, which is for clusters without any other ingress controller.
func Ours(m *meshconfig.MeshConfig, ingress *networkingv1.Ingress, class *networkingv1.IngressClass) bool {
	return settingsOf(m).ours(ingress, class)
}

func (s settings) ours(ingress *networkingv1.Ingress, class *networkingv1.IngressClass) bool {
	annotated, there := ingress.Annotations[annotation.IoKubernetesIngressClass.Name]
	switch {
	case s.mode != meshconfig.MeshConfig_STRICT && s.mode != meshconfig.MeshConfig_DEFAULT:
		return false
	case there:
		return annotated == s.class
	case class != nil:
		return class.Spec.Controller == controller
	default:
		return s.mode == meshconfig.MeshConfig_DEFAULT
	}
}

// className gives the class that an Ingress names, "" if it names none.
func className(object *config.Config) string {
	if named := config.Spec[*networkingv1.Ingress](object).Spec.IngressClassName; named != nil {
		return *named
	}
	return ""
}

// ours says whether an Ingress is to be served.
func (c *Converter) ours(ingress *config.Config) bool {
	var class *networkingv1.IngressClass
	if object := c.classes[className(ingress)]; object != nil {
		class = config.Spec[*networkingv1.IngressClass](object)
	}
	return c.settings.ours(config.Spec[*networkingv1.Ingress](ingress), class)
}
