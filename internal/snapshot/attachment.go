package snapshot

import (
	"fmt"
	"slices"

	extensions "istio.io/api/extensions/v1alpha1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// attached are the specs of objects that say whom they are for: workloads by labels, or other objects by reference.
type attached interface {
	GetSelector() *typev1beta1.WorkloadSelector
	GetTargetRef() *typev1beta1.PolicyTargetReference
	GetTargetRefs() []*typev1beta1.PolicyTargetReference
}

// trafficExtension is a spec of a kind that never had the older field for one reference.
type trafficExtension struct{ *extensions.TrafficExtension }

func (trafficExtension) GetTargetRef() *typev1beta1.PolicyTargetReference { return nil }

// attachment gives whom an object is for. Both are empty where it is for everybody in its namespace.
func attachment(c *config.Config) (labels map[string]string, refs []*typev1beta1.PolicyTargetReference) {
	var a attached
	switch c.Kind {
	case api.Telemetry:
		a = config.Spec[*telemetry.Telemetry](c)
	case api.AuthorizationPolicy:
		a = config.Spec[*security.AuthorizationPolicy](c)
	case api.RequestAuthentication:
		a = config.Spec[*security.RequestAuthentication](c)
	case api.WasmPlugin:
		a = config.Spec[*extensions.WasmPlugin](c)
	case api.TrafficExtension:
		a = trafficExtension{config.Spec[*extensions.TrafficExtension](c)}
	default:
		panic(fmt.Sprintf("snapshot: %s is not attached to anything", c.Key)) // a bug of the caller
	}
	refs = a.GetTargetRefs()
	if ref := a.GetTargetRef(); ref != nil {
		refs = append([]*typev1beta1.PolicyTargetReference{ref}, refs...)
	}
	return a.GetSelector().GetMatchLabels(), refs
}

func selectorOf(c *config.Config) map[string]string {
	labels, _ := attachment(c)
	return labels
}

// holds says whether an object with a selector or references is for the proxy; root is the name of the root namespace.
func (p Patched) holds(c *config.Config, root string) bool {
	labels, refs := attachment(c)
	if len(refs) > 0 {
		return slices.ContainsFunc(refs, func(ref *typev1beta1.PolicyTargetReference) bool { return p.meant(ref, c.Namespace, root) })
	}
	return Selects(labels, p.Labels)
}
