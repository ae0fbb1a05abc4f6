package gatewayapi

import (
	"fmt"
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// targetVerdicts returns a verdict for each targetRef of a BackendTLSPolicy (targetVerdict).
func (c *Converter) targetVerdicts(object *config.Config) []verdict {
	targets := config.Spec[*gatewayv1.BackendTLSPolicy](object).Spec.TargetRefs
	list := make([]verdict, 0, len(targets))
	for i, t := range targets {
		list = append(list, c.targetVerdict(object, fmt.Sprintf("spec.targetRefs[%d]", i), t))
	}
	return list
}

// targetVerdict returns a failed verdict, which names field, if the target t of a BackendTLSPolicy
// is no backend, if it or its port does not exist, or if an older policy targets the same. The
// whole target and a port of it are different targets. Otherwise the verdict passes.
func (c *Converter) targetVerdict(
	object *config.Config,
	field string,
	t gatewayv1.LocalPolicyTargetReferenceWithSectionName,
) verdict {
	fail := func(reason gatewayv1.PolicyConditionReason, format string, args ...any) verdict {
		return verdict{string(reason), field + fmt.Sprintf(format, args...)}
	}
	k, ok := policyTarget(object.Namespace, t)
	if !ok {
		return fail(gatewayv1.PolicyReasonTargetNotFound, ": kind %q of group %q is not a backend", t.Kind, t.Group)
	}
	section := ""
	if t.SectionName != nil {
		section = string(*t.SectionName)
	}
	if _, exists := c.namedPort(k, ""); !exists {
		return fail(gatewayv1.PolicyReasonTargetNotFound, ": %s %s/%s does not exist", k.Kind, k.Namespace, k.Name)
	}
	if _, exists := c.namedPort(k, section); !exists {
		return fail(gatewayv1.PolicyReasonTargetNotFound, ".sectionName: %s %s/%s has no port %q", k.Kind, k.Namespace,
			k.Name, section)
	}
	for _, p := range c.policiesOf(api.BackendTLSPolicy, k) {
		if p == object {
			break
		}
		if others, _ := c.sectionsOf(p, k); slices.Contains(others, section) {
			return fail(gatewayv1.PolicyReasonConflicted, ": %s is older and targets %s too", p.Key, k)
		}
	}
	return verdict{}
}

// acceptedAt returns the verdict about a policy at Gateways, from the verdicts about it and about
// each target. It fails if the policy does, if a target conflicts, or if no target can be used.
func acceptedAt(accepted verdict, targets []verdict) verdict {
	usable := false
	for _, v := range targets {
		if usable = usable || v.ok(); v.reason == string(gatewayv1.PolicyReasonConflicted) {
			accepted.worse(v)
		}
	}
	if !usable {
		for _, v := range targets {
			accepted.worse(v)
		}
	}
	return accepted
}

// maxAncestors is the largest number of ancestors in the status of a policy.
const maxAncestors = 16

// ancestorStatus returns the entry of a policy's status for an ancestor.
func ancestorStatus(
	ancestor gatewayv1.ParentReference,
	controller string,
	conditions conditionList,
) gatewayv1.PolicyAncestorStatus {
	return gatewayv1.PolicyAncestorStatus{
		AncestorRef:    ancestor,
		ControllerName: gatewayv1.GatewayController(controller),
		Conditions:     conditions.list,
	}
}

// targetReference returns a target of a policy, which is in the policy's namespace, as an ancestor
// of its status.
func targetReference(t gatewayv1.LocalPolicyTargetReferenceWithSectionName) gatewayv1.ParentReference {
	return gatewayv1.ParentReference{Group: &t.Group, Kind: &t.Kind, Name: t.Name, SectionName: t.SectionName}
}

// policyStatus returns the status of a BackendTLSPolicy from the verdicts about it, about its
// references and about each target. It has an entry for each target, where it applies to the mesh,
// then for each Gateway that accepted a route to a target, sorted by name. If these are more than
// maxAncestors, the last Gateways are left out.
func (c *Converter) policyStatus(object *config.Config, accepted, resolved verdict, targets []verdict) *Status {
	gateways := map[name]string{}
	for _, target := range targetsOf(object) {
		maps.Copy(gateways, c.gatewaysTo(target))
	}
	s := &gatewayv1.PolicyStatus{}
	add := func(ref gatewayv1.ParentReference, controller string, accepted verdict) {
		if len(s.Ancestors) == maxAncestors {
			return
		}
		list := conditionList{generation: object.Generation}
		list.add(string(gatewayv1.PolicyConditionAccepted), string(gatewayv1.PolicyReasonAccepted),
			"The policy is accepted", accepted)
		list.add(string(gatewayv1.BackendTLSPolicyConditionResolvedRefs),
			string(gatewayv1.BackendTLSPolicyReasonResolvedRefs),
			"All references are resolved", resolved)
		s.Ancestors = append(s.Ancestors, ancestorStatus(ref, controller, list))
	}
	for i, t := range config.Spec[*gatewayv1.BackendTLSPolicy](object).Spec.TargetRefs {
		v := accepted
		v.worse(targets[i])
		add(targetReference(t), MeshControllerName, v)
	}
	accepted = acceptedAt(accepted, targets)
	group, kind := gatewayGroup, gatewayv1.Kind("Gateway")
	for _, n := range slices.SortedFunc(maps.Keys(gateways), compareNames) {
		namespace := gatewayv1.Namespace(n.Namespace)
		add(gatewayv1.ParentReference{
			Group: &group, Kind: &kind, Namespace: &namespace, Name: gatewayv1.ObjectName(n.Name),
		}, gateways[n], accepted)
	}
	return &Status{Generation: object.Generation, Value: s}
}
