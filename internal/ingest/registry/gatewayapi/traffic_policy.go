package gatewayapi

import (
	"fmt"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Defaults of a retryConstraint, as in the API.
const (
	defaultBudgetPercent  = 20
	defaultBudgetInterval = 10 * time.Second
	defaultMinRetries     = 10
	// minRetryInterval is the only interval of minRetryRate without a Warning: Envoy limits how
	// many retries are active, not how many begin in some time.
	minRetryInterval = time.Second
)

// trafficTarget returns the key of the Service or ServiceEntry that an XBackendTrafficPolicy in a
// namespace targets. ok is false for other kinds.
func trafficTarget(namespace string, t gatewayx.LocalPolicyTargetReference) (k config.Key, ok bool) {
	return policyTarget(namespace, gatewayv1.LocalPolicyTargetReferenceWithSectionName{LocalPolicyTargetReference: t})
}

// trafficPolicy is an XBackendTrafficPolicy, converted.
type trafficPolicy struct {
	// budget is nil without a retryConstraint.
	budget *config.RetryBudget
	// accepted is the verdict about the values. ignored are fields without effect.
	accepted verdict
	ignored  []verdict
}

// readTrafficPolicy returns the retry budget of an XBackendTrafficPolicy, nil if it sets none.
// accepted fails for a session, which Envoy keeps by route and not by backend, and for invalid
// durations. ignored has a verdict for each value without effect. An absent percentage, interval or
// count has its default.
func readTrafficPolicy(object *config.Config) trafficPolicy {
	spec := config.Spec[*gatewayx.XBackendTrafficPolicy](object).Spec
	var out trafficPolicy
	if spec.SessionPersistence != nil {
		out.accepted = verdict{
			string(gatewayv1.PolicyReasonInvalid),
			"spec.sessionPersistence: is not supported for backends: set sessionPersistence in the rules of their routes",
		}
	}
	in := spec.RetryConstraint
	if in == nil {
		return out
	}
	out.budget = &config.RetryBudget{
		Percent:        defaultBudgetPercent,
		Interval:       defaultBudgetInterval,
		MinConcurrency: defaultMinRetries,
	}
	if in.Budget != nil {
		if in.Budget.Percent != nil {
			out.budget.Percent = float64(*in.Budget.Percent)
		}
		out.setDuration(&out.budget.Interval, "spec.retryConstraint.budget.interval", in.Budget.Interval)
	}
	if in.MinRetryRate == nil {
		return out
	}
	if in.MinRetryRate.Count != nil {
		out.budget.MinConcurrency = uint32(max(*in.MinRetryRate.Count, 0)) //nolint:gosec // limited by the API
	}
	interval := minRetryInterval
	out.setDuration(&interval, "spec.retryConstraint.minRetryRate.interval", in.MinRetryRate.Interval)
	if interval != minRetryInterval {
		out.ignored = append(out.ignored, unsupported(
			"spec.retryConstraint.minRetryRate.interval: has no effect: count is the number of retries that may be active at once",
		))
	}
	return out
}

// setDuration sets to from in. It leaves to as it is if in is nil, or invalid: then it fails
// p.accepted.
func (p *trafficPolicy) setDuration(to *time.Duration, field string, in *gatewayv1.Duration) {
	var v verdict
	if d := readDuration(in, field, &v); d != nil {
		*to = d.AsDuration()
	}
	if !v.ok() {
		p.accepted.worse(verdict{string(gatewayv1.PolicyReasonInvalid), v.message})
	}
}

// retryBudget returns the retry budget of a target and the policy that sets it, the oldest of the
// target. Both are nil if there is no policy, or the oldest is not accepted or sets no budget.
func (c *Converter) retryBudget(target config.Key) (*config.RetryBudget, *config.Config) {
	policies := c.policiesOf(api.XBackendTrafficPolicy, target)
	if len(policies) == 0 {
		return nil, nil
	}
	oldest := readTrafficPolicy(policies[0])
	if !oldest.accepted.ok() || oldest.budget == nil {
		return nil, nil
	}
	return oldest.budget, policies[0]
}

// trafficRules returns a DestinationRule with the retry budget for each host of a target, nil if no
// budget applies to it.
func (c *Converter) trafficRules(target config.Key) []*config.Config {
	budget, from := c.retryBudget(target)
	if budget == nil {
		return nil
	}
	var list []*config.Config
	hosts, _ := c.meshHosts(target)
	for i, h := range hosts {
		key := config.Key{
			Kind: api.DestinationRule, Namespace: target.Namespace,
			Name: fmt.Sprintf("%s~%s~traffic~%d", target.Name, target.Kind, i),
		}
		spec := &networking.DestinationRule{Host: string(h), ExportTo: []string{"*"}}
		list = append(list, newObject(key, from, spec, &config.Extension{Source: from.Key, RetryBudget: budget}))
	}
	return list
}

// flushTrafficPolicy updates the status and the Problems of an XBackendTrafficPolicy. For a policy
// that does not exist both are deleted. If the conversion panics, only the Problem is emitted.
func (c *Converter) flushTrafficPolicy(out mesh.Batch, k config.Key) mesh.Batch {
	object := c.objects.all[k]
	var status *Status
	var problems []config.Problem
	out, converted := c.guard.Try(out, registry.Convert, k, registry.OriginOf(object), func() {
		if object != nil {
			status, problems = c.trafficPolicyStatus(object)
		}
	})
	if !converted {
		return out
	}
	c.pending.setStatus(k, status)
	return c.emitted.problems.Emit(out, k, problems)
}

// trafficPolicyStatus returns the status and the Problems of an XBackendTrafficPolicy. The status
// has an entry for each target, at most maxAncestors, which is accepted if the policy and the
// target are. A refused policy and each refused target are Errors, ignored values are Warnings. An
// ignored policy has no Problems.
func (c *Converter) trafficPolicyStatus(object *config.Config) (*Status, []config.Problem) {
	if isIgnored(object) {
		return ignoredStatus(object), nil
	}
	read := readTrafficPolicy(object)
	var problems []config.Problem
	for _, v := range read.ignored {
		problems = append(problems, newProblem(object, "", config.Warning, v))
	}
	if !read.accepted.ok() {
		problems = append(problems, newProblem(object, "", config.Error, read.accepted))
	}
	s := &gatewayv1.PolicyStatus{}
	for i, t := range config.Spec[*gatewayx.XBackendTrafficPolicy](object).Spec.TargetRefs {
		target := c.trafficTargetVerdict(object, fmt.Sprintf("spec.targetRefs[%d]", i), t)
		if !target.ok() {
			problems = append(problems, newProblem(object, "", config.Error, target))
		}
		accepted := read.accepted
		accepted.worse(target)
		list := conditionList{generation: object.Generation}
		list.add(string(gatewayv1.PolicyConditionAccepted), string(gatewayv1.PolicyReasonAccepted),
			"The policy is accepted", accepted)
		if i < maxAncestors {
			ref := targetReference(gatewayv1.LocalPolicyTargetReferenceWithSectionName{LocalPolicyTargetReference: t})
			s.Ancestors = append(s.Ancestors, ancestorStatus(ref, MeshControllerName, list))
		}
	}
	return &Status{Generation: object.Generation, Value: s}, problems
}

// trafficTargetVerdict returns a failed verdict, which names field, if the target t of a policy is
// no backend, does not exist, or has an older policy. Otherwise the verdict passes.
func (c *Converter) trafficTargetVerdict(
	object *config.Config,
	field string,
	t gatewayx.LocalPolicyTargetReference,
) verdict {
	k, ok := trafficTarget(object.Namespace, t)
	if !ok {
		return verdict{
			string(gatewayv1.PolicyReasonTargetNotFound),
			fmt.Sprintf("%s: kind %q of group %q is not a backend", field, t.Kind, t.Group),
		}
	}
	if _, exists := c.meshHosts(k); !exists {
		return verdict{
			string(gatewayv1.PolicyReasonTargetNotFound),
			fmt.Sprintf("%s: %s %s/%s does not exist", field, k.Kind, k.Namespace, k.Name),
		}
	}
	if first := c.policiesOf(api.XBackendTrafficPolicy, k)[0]; first != object {
		return verdict{
			string(gatewayv1.PolicyReasonConflicted),
			fmt.Sprintf("%s: %s is older and targets %s too", field, first.Key, k),
		}
	}
	return verdict{}
}
