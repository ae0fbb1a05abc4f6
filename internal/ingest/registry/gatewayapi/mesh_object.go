package gatewayapi

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/gateway-api/pkg/features"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// flushApart sets the statuses of the marked XMeshes and emits their Problems. For an XMesh that
// does not exist both are deleted. If reading one panics, only the Problem of that is emitted.
func (c *Converter) flushApart(out mesh.Batch) mesh.Batch {
	for _, k := range sortedKeys(c.dirty.apart) {
		object := c.objects.all[k]
		var status *Status
		var problems []config.Problem
		var converted bool
		out, converted = c.guard.Try(out, registry.Convert, k, registry.OriginOf(object), func() {
			if object != nil {
				status, problems = meshStatus(object)
			}
		})
		if !converted {
			continue
		}
		c.pending.setStatus(k, status)
		out = c.emitted.problems.Emit(out, k, problems)
	}
	clear(c.dirty.apart)
	return out
}

// meshStatus returns the status of an XMesh, with the supported features of a mesh, and its
// Problems. An XMesh with a parametersRef is reported as not accepted, with a Problem: parameters
// are not supported. Both results are nil for an XMesh of another controller.
func meshStatus(object *config.Config) (*Status, []config.Problem) {
	spec := config.Spec[*gatewayx.XMesh](object).Spec
	if spec.ControllerName != ControllerName {
		return nil, nil
	}
	var accepted verdict
	var problems []config.Problem
	if spec.ParametersRef != nil {
		accepted = verdict{
			string(gatewayx.MeshReasonInvalidParameters),
			"spec.parametersRef: an XMesh has no parameters",
		}
		problems = append(problems, newProblem(object, "", config.Error, accepted))
	}
	list := conditionList{generation: object.Generation}
	list.add(
		string(gatewayx.MeshConditionAccepted),
		string(gatewayx.MeshReasonAccepted),
		"Handled by meshpilot",
		accepted,
	)
	s := &gatewayx.MeshStatus{Conditions: list.list}
	for _, f := range meshFeatures() {
		s.SupportedFeatures = append(s.SupportedFeatures, gatewayv1.SupportedFeature{Name: gatewayv1.FeatureName(f)})
	}
	return &Status{Generation: object.Generation, Value: s}, problems
}

// meshFeatures returns the names of all features of meshes, sorted, except unsupportedFeatures.
func meshFeatures() []string {
	var list []string
	for f := range features.MeshCoreFeatures.Union(features.MeshExtendedFeatures) {
		if !slices.Contains(unsupportedFeatures, f.Name) {
			list = append(list, string(f.Name))
		}
	}
	slices.Sort(list)
	return list
}
