package gatewayapi

import (
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// ignoreAttachment is the annotation with the value "true" of a policy that is meant for another
// implementation of the Gateway API, as in Istio.
const ignoreAttachment = "istio.io/ignore-policy-attachment"

// isIgnored reports whether a BackendTLSPolicy or XBackendTrafficPolicy has ignoreAttachment. It
// then has no effect, and does not conflict with other policies.
func isIgnored(policy *config.Config) bool {
	return strings.EqualFold(policy.Annotations[ignoreAttachment], "true")
}

// ignoredStatus returns the status of an ignored policy: an entry for each target, at most
// maxAncestors, which is not accepted, with the reason that Istio uses.
func ignoredStatus(policy *config.Config) *Status {
	var targets []gatewayv1.LocalPolicyTargetReferenceWithSectionName
	if policy.Kind == api.XBackendTrafficPolicy {
		for _, t := range config.Spec[*gatewayx.XBackendTrafficPolicy](policy).Spec.TargetRefs {
			targets = append(targets, gatewayv1.LocalPolicyTargetReferenceWithSectionName{LocalPolicyTargetReference: t})
		}
	} else {
		targets = config.Spec[*gatewayv1.BackendTLSPolicy](policy).Spec.TargetRefs
	}
	s := &gatewayv1.PolicyStatus{}
	for _, t := range targets[:min(len(targets), maxAncestors)] {
		list := conditionList{generation: policy.Generation}
		list.add(string(gatewayv1.PolicyConditionAccepted), "", "",
			verdict{"IgnoredByIstio", "The annotation " + ignoreAttachment + " is true"})
		s.Ancestors = append(s.Ancestors, ancestorStatus(targetReference(t), MeshControllerName, list))
	}
	return &Status{Generation: policy.Generation, Value: s}
}
