package snapshot

import (
	"fmt"
	"iter"
	"slices"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// targetedSpec is implemented by the specs of policies that select workloads by labels or other
// objects by reference.
type targetedSpec interface {
	GetSelector() *typev1beta1.WorkloadSelector
	GetTargetRef() *typev1beta1.PolicyTargetReference
	GetTargetRefs() []*typev1beta1.PolicyTargetReference
}

// trafficExtension adapts a spec whose kind never had the deprecated field targetRef.
type trafficExtension struct{ *extensions.TrafficExtension }

// GetTargetRef returns nil.
func (trafficExtension) GetTargetRef() *typev1beta1.PolicyTargetReference { return nil }

// envoyFilterSpec adapts a spec whose kind never had the deprecated field targetRef.
type envoyFilterSpec struct{ *networking.EnvoyFilter }

// GetTargetRef returns nil.
func (envoyFilterSpec) GetTargetRef() *typev1beta1.PolicyTargetReference { return nil }

// specOfPolicy returns the spec of a Telemetry, AuthorizationPolicy, RequestAuthentication,
// WasmPlugin or TrafficExtension. It panics for other kinds.
func specOfPolicy(c *config.Config) targetedSpec {
	switch c.Kind {
	case api.Telemetry:
		return config.Spec[*telemetry.Telemetry](c)
	case api.AuthorizationPolicy:
		return config.Spec[*security.AuthorizationPolicy](c)
	case api.RequestAuthentication:
		return config.Spec[*security.RequestAuthentication](c)
	case api.WasmPlugin:
		return config.Spec[*extensions.WasmPlugin](c)
	case api.TrafficExtension:
		return trafficExtension{config.Spec[*extensions.TrafficExtension](c)}
	default:
		panic(fmt.Sprintf("snapshot: %s is not attached to anything", c.Key)) // a programming error
	}
}

// policyTarget returns the label selector and the references of a policy. Both are empty if it
// applies to all workloads of its namespace. It panics for a kind that is not a policy.
func policyTarget(c *config.Config) (labels map[string]string, refs []*typev1beta1.PolicyTargetReference) {
	a := specOfPolicy(c)
	refs = a.GetTargetRefs()
	if ref := a.GetTargetRef(); ref != nil {
		refs = append([]*typev1beta1.PolicyTargetReference{ref}, refs...)
	}
	return a.GetSelector().GetMatchLabels(), refs
}

// TargetRefs returns the references of a policy or an EnvoyFilter to the objects that it applies
// to, each with its field: spec.targetRef, which is deprecated, or spec.targetRefs[i]. It panics
// for other kinds.
func TargetRefs(c *config.Config) iter.Seq2[string, *typev1beta1.PolicyTargetReference] {
	var a interface {
		GetTargetRef() *typev1beta1.PolicyTargetReference
		GetTargetRefs() []*typev1beta1.PolicyTargetReference
	}
	if c.Kind == api.EnvoyFilter {
		a = envoyFilterSpec{config.Spec[*networking.EnvoyFilter](c)}
	} else {
		a = specOfPolicy(c)
	}
	return func(yield func(string, *typev1beta1.PolicyTargetReference) bool) {
		if ref := a.GetTargetRef(); ref != nil && !yield("spec.targetRef", ref) {
			return
		}
		for i, ref := range a.GetTargetRefs() {
			if !yield(fmt.Sprintf("spec.targetRefs[%d]", i), ref) {
				return
			}
		}
	}
}

// isTargetOf reports whether a reference of a policy or, if it has none, its selector matches the
// proxy. A policy with neither matches nothing here; callers handle it.
func (p ProxyAttributes) isTargetOf(c *config.Config) bool {
	labels, refs := policyTarget(c)
	if len(refs) > 0 {
		return slices.ContainsFunc(refs, func(ref *typev1beta1.PolicyTargetReference) bool {
			return p.isReferencedBy(ref, c.Namespace)
		})
	}
	return SelectorMatches(labels, p.Labels)
}
