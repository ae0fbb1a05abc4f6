package gatewayapi

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/features"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// classInfo describes a class of this project's controllers.
type classInfo struct {
	controller string
	// deploys is set if gateways are deployed for Gateways of the class.
	deploys bool
	object  *config.Config // nil for a default class without an object
}

// defaultClass returns the controller of a class that needs no GatewayClass, or "".
func defaultClass(class string) string {
	switch class {
	case "istio", "meshpilot":
		return ControllerName
	case "istio-remote":
		return UnmanagedControllerName
	default:
		return ""
	}
}

// classOf returns the class of this name, and whether its controller is one of this project's. A
// class without a GatewayClass is known if it is a default one (defaultClass); its object is then
// nil.
func (c *Converter) classOf(class string) (classInfo, bool) {
	object := c.objects.all[config.Key{Kind: api.GatewayClass, Name: class}]
	controller := defaultClass(class)
	if object != nil {
		controller = string(config.Spec[*gatewayv1.GatewayClass](object).Spec.ControllerName)
	}
	switch controller {
	case ControllerName, UnmanagedControllerName:
		return classInfo{controller, controller == ControllerName, object}, true
	default:
		return classInfo{}, false
	}
}

// classStatus returns the status of a GatewayClass, or nil if it does not exist or belongs to
// another controller.
func (c *Converter) classStatus(class string) *Status {
	info, ours := c.classOf(class)
	if !ours || info.object == nil {
		return nil
	}
	list := conditionList{generation: info.object.Generation}
	list.add(string(gatewayv1.GatewayClassConditionStatusAccepted), string(gatewayv1.GatewayClassReasonAccepted),
		"Handled by meshpilot", verdict{})
	s := &gatewayv1.GatewayClassStatus{Conditions: list.list}
	for _, f := range SupportedFeatures() {
		s.SupportedFeatures = append(s.SupportedFeatures, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(f)})
	}
	return &Status{Generation: info.object.Generation, Value: s}
}

// SupportedFeatures returns the names of the supported features of the Gateway API, sorted.
func SupportedFeatures() []string {
	var list []string
	for f := range features.AllFeatures {
		if !slices.Contains(unsupportedFeatures, f.Name) {
			list = append(list, string(f.Name))
		}
	}
	slices.Sort(list)
	return list
}
