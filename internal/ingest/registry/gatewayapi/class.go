package gatewayapi

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/features"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// classInfo describes a class of this project's controllers.
type classInfo struct {
	controller string
	// deploys is set if Gateways of the class are served, and gateways deployed for them. Gateways of
	// other classes describe gateways outside of the mesh's clusters.
	deploys bool
	object  *config.Config // nil for a default class without an object
}

// defaultClass returns the controller of a class that needs no GatewayClass ("istio", "meshpilot"
// or "istio-remote"), or "".
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
// class without a GatewayClass is known if it is "istio", "meshpilot" or "istio-remote"
// (defaultClass); its object is then nil.
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

// flushClass sets the status of a GatewayClass, emits its Problem, and records the ConfigMap that
// its parametersRef names as its reference. For a class that does not exist or is of another
// controller it deletes all three. If checking it panics, only the Problem of that is emitted.
func (c *Converter) flushClass(out mesh.Batch, class string) mesh.Batch {
	k := config.Key{Kind: api.GatewayClass, Name: class}
	var status *Status
	var problems []config.Problem
	var refs []config.Key
	out, converted := c.guard.Try(out, registry.Convert, k, registry.OriginOf(c.objects.all[k]), func() {
		info, ours := c.classOf(class)
		if !ours || info.object == nil {
			return
		}
		var accepted verdict
		accepted, refs = c.checkClassParameters(info)
		status = classStatus(info, accepted)
		if !accepted.ok() {
			problems = append(problems, newProblem(info.object, "", config.Error, accepted))
		}
	})
	if !converted {
		return out
	}
	c.setReferences(k, c.classRefs[k], refs)
	c.secrets.replace(c.classRefs[k], refs)
	if c.classRefs[k] = refs; refs == nil {
		delete(c.classRefs, k)
	}
	c.pending.setStatus(k, status)
	return c.emitted.problems.Emit(out, k, problems)
}

// checkClassParameters returns the verdict about spec.parametersRef of a class, and the key of the
// ConfigMap with its name. The verdict fails, without a key, if gateways of the class are not
// deployed or the namespace is missing. It also fails if there are no usable overlays
// (overlaysFault). It passes, without a key, if there is no parametersRef.
func (c *Converter) checkClassParameters(info classInfo) (verdict, []config.Key) {
	ref := config.Spec[*gatewayv1.GatewayClass](info.object).Spec.ParametersRef
	if ref == nil {
		return verdict{}, nil
	}
	invalid := func(fault string) verdict {
		return verdict{string(gatewayv1.GatewayClassReasonInvalidParameters), "spec.parametersRef: " + fault}
	}
	switch {
	case !info.deploys:
		return invalid("has no effect: the gateways of this class are not deployed here"), nil
	case ref.Namespace == nil:
		return invalid("the namespace of the ConfigMap is missing"), nil
	}
	k := config.Key{Kind: api.ConfigMap, Namespace: string(*ref.Namespace), Name: ref.Name}
	if fault := c.overlaysFault(ref.Group, ref.Kind, k); fault != "" {
		return invalid(fault), []config.Key{k}
	}
	return verdict{}, []config.Key{k}
}

// classStatus returns the status of a GatewayClass: the condition Accepted for the verdict, and the
// supported features. info.object must not be nil.
func classStatus(info classInfo, accepted verdict) *Status {
	list := conditionList{generation: info.object.Generation}
	list.add(string(gatewayv1.GatewayClassConditionStatusAccepted), string(gatewayv1.GatewayClassReasonAccepted),
		"Handled by meshpilot", accepted)
	s := &gatewayv1.GatewayClassStatus{Conditions: list.list}
	for _, f := range SupportedFeatures() {
		s.SupportedFeatures = append(s.SupportedFeatures, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(f)})
	}
	return &Status{Generation: info.object.Generation, Value: s}
}

// SupportedFeatures returns the names of all features of the Gateway API, sorted, except
// unsupportedFeatures.
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
