package ingress

import (
	networkingv1 "k8s.io/api/networking/v1"

	"istio.io/api/annotation"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// controller is the value of IngressClass.spec.controller for Istio's Ingresses.
const controller = "istio.io/ingress-controller"

// settings is the part of MeshConfig that Ingresses depend on.
type settings struct {
	mode  meshconfig.MeshConfig_IngressControllerMode
	class string
	// gateways is the value of the label "istio" of the gateways that serve Ingresses.
	gateways string
}

// settingsOf returns the settings of Ingresses in a mesh configuration: mode, class, and the value
// of the label "istio" that selects the gateways' pods. The selector is ingressSelector, else
// ingressService unless that has its default name, else "ingressgateway".
func settingsOf(m *meshconfig.MeshConfig) settings {
	s := settings{mode: m.GetIngressControllerMode(), class: m.GetIngressClass(), gateways: "ingressgateway"}
	switch selector, service := m.GetIngressSelector(), m.GetIngressService(); {
	case selector != "":
		s.gateways = selector
	case service != "" && service != "istio-ingressgateway":
		// the label value equals the Service name, except for the Service of a default installation
		s.gateways = service
	}
	return s
}

// IsServed reports whether the mesh serves an Ingress. class is the IngressClass that it names, or
// nil if it names none or the class does not exist.
//
// The annotation kubernetes.io/ingress.class, which must equal MeshConfig.ingressClass, takes
// precedence over class, whose controller must be Istio's. An Ingress with neither is served only
// in mode DEFAULT, and no Ingress in modes other than DEFAULT and STRICT.
func IsServed(m *meshconfig.MeshConfig, ingress *networkingv1.Ingress, class *networkingv1.IngressClass) bool {
	return settingsOf(m).isServed(ingress, class)
}

// isServed reports whether the mesh serves an Ingress, as IsServed does. Without the modes STRICT
// and DEFAULT it serves none; without annotation and class, only DEFAULT does. The annotation,
// which must equal s.class, precedes class, whose controller must be Istio's.
func (s settings) isServed(ingress *networkingv1.Ingress, class *networkingv1.IngressClass) bool {
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

// className returns the name of the IngressClass in the spec of an Ingress, or "" if it names none.
// The annotation is not read.
func className(object *config.Config) string {
	if named := config.Spec[*networkingv1.Ingress](object).Spec.IngressClassName; named != nil {
		return *named
	}
	return ""
}

// isServed reports whether the mesh serves an Ingress, by the settings and the IngressClasses that
// the Converter knows.
func (c *Converter) isServed(ingress *config.Config) bool {
	var class *networkingv1.IngressClass
	if object := c.classes[className(ingress)]; object != nil {
		class = config.Spec[*networkingv1.IngressClass](object)
	}
	return c.settings.isServed(config.Spec[*networkingv1.Ingress](ingress), class)
}
