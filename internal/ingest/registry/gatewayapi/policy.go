package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// policyTarget returns the key of the Service or ServiceEntry that a BackendTLSPolicy in a
// namespace targets. ok is false for other kinds.
func policyTarget(namespace string, t gatewayv1.LocalPolicyTargetReferenceWithSectionName) (k config.Key, ok bool) {
	k = config.Key{Namespace: namespace, Name: string(t.Name)}
	switch {
	case t.Group == "" && t.Kind == "Service":
		k.Kind = api.Service
	case t.Group == "networking.istio.io" && t.Kind == "ServiceEntry":
		k.Kind = api.ServiceEntry
	default:
		return k, false
	}
	return k, true
}

// targetsOf returns the keys of the Services and ServiceEntries that a BackendTLSPolicy or
// XBackendTrafficPolicy targets, without duplicates. It returns nil if c is nil.
func targetsOf(c *config.Config) []config.Key {
	var list []config.Key
	if c == nil {
		return nil
	}
	add := func(k config.Key, ok bool) {
		if ok && !slices.Contains(list, k) {
			list = append(list, k)
		}
	}
	if c.Kind == api.XBackendTrafficPolicy {
		for _, t := range config.Spec[*gatewayx.XBackendTrafficPolicy](c).Spec.TargetRefs {
			add(trafficTarget(c.Namespace, t))
		}
		return list
	}
	for _, t := range config.Spec[*gatewayv1.BackendTLSPolicy](c).Spec.TargetRefs {
		add(policyTarget(c.Namespace, t))
	}
	return list
}

// markPolicy replaces the targets of a policy in the index, was by is, and marks it with all
// policies of these targets, because they may conflict.
func (c *Converter) markPolicy(k config.Key, was, is []config.Key) {
	c.markTargets(was)
	for _, t := range was {
		c.objects.policies.Remove(t, k)
	}
	for _, t := range is {
		c.objects.policies.Add(t, k)
	}
	c.markTargets(is)
	c.dirty.policies[k] = struct{}{}
}

// markTargets marks the targets of policies, and all policies of each, for conversion.
func (c *Converter) markTargets(targets []config.Key) {
	for _, t := range targets {
		for p := range c.objects.policies.Values(t) {
			c.dirty.policies[p] = struct{}{}
		}
		c.dirty.targets[t] = struct{}{}
	}
}

// policiesOf returns the policies of a kind that target an object and are not ignored, the oldest
// first, nil if there are none.
func (c *Converter) policiesOf(kind api.Kind, target config.Key) []*config.Config {
	var list []*config.Config
	for k := range c.objects.policies.Values(target) {
		if object := c.objects.all[k]; object != nil && k.Kind == kind && !isIgnored(object) {
			list = append(list, object)
		}
	}
	slices.SortFunc(list, config.CompareAge)
	return list
}

// sectionsOf returns the names of the target's ports (sections) to which a BackendTLSPolicy
// applies, in its order without duplicates, and the number of each. The section "" with port 0 is
// the whole target. Sections and targets that do not exist are left out; without any, sections is
// nil.
func (c *Converter) sectionsOf(object *config.Config, target config.Key) (sections []string, ports map[string]uint32) {
	ports = map[string]uint32{}
	for _, t := range config.Spec[*gatewayv1.BackendTLSPolicy](object).Spec.TargetRefs {
		if k, ok := policyTarget(object.Namespace, t); !ok || k != target {
			continue
		}
		section := ""
		if t.SectionName != nil {
			section = string(*t.SectionName)
		}
		if port, found := c.namedPort(target, section); found && !slices.Contains(sections, section) {
			sections, ports[section] = append(sections, section), port
		}
	}
	return sections, ports
}

// namedPort returns the number of the port named section, compared exactly, of a Service or
// ServiceEntry. Without a section it returns 0, for all ports. It returns false if the object or
// the port does not exist.
func (c *Converter) namedPort(k config.Key, section string) (uint32, bool) {
	object := c.objects.all[k]
	switch {
	case object == nil:
		return 0, false
	case section == "":
		return 0, true
	}
	switch o := object.Spec.(type) {
	case *corev1.Service:
		for _, p := range o.Spec.Ports {
			if p.Name == section {
				return uint32(p.Port), true //nolint:gosec // a port
			}
		}
	case *networking.ServiceEntry:
		for _, p := range o.Ports {
			if p.GetName() == section {
				return p.GetNumber(), true
			}
		}
	}
	return 0, false
}

// flushPolicies first marks the targets of the marked policies. It emits the DestinationRules of
// all marked targets, and then updates the statuses and Problems of the marked policies, both
// sorted by key. It clears both marks.
func (c *Converter) flushPolicies(out mesh.Batch) mesh.Batch {
	for _, k := range sortedKeys(c.dirty.policies) {
		c.markTargets(targetsOf(c.objects.all[k]))
	}
	for _, t := range sortedKeys(c.dirty.targets) {
		out = c.flushTarget(out, t)
	}
	clear(c.dirty.targets)
	for _, k := range sortedKeys(c.dirty.policies) {
		if k.Kind == api.XBackendTrafficPolicy {
			out = c.flushTrafficPolicy(out, k)
		} else {
			out = c.flushPolicy(out, k)
		}
	}
	clear(c.dirty.policies)
	return out
}

// flushTarget emits the DestinationRules of a target of policies. Each of its hosts has one with
// TLS settings, one more for each Gateway with a client certificate, and one with a retry budget.
// For each port the oldest policy applies. Without policies they are deleted; if the conversion
// panics, only the Problem is emitted.
func (c *Converter) flushTarget(out mesh.Batch, target config.Key) mesh.Batch {
	var objects []*config.Config
	out, converted := c.guard.Try(out, registry.Convert, target, "", func() {
		var list []config.BackendTLS
		var from *config.Config
		taken := map[string]bool{}
		for _, p := range c.policiesOf(api.BackendTLSPolicy, target) {
			sections, ports := c.sectionsOf(p, target)
			resolved, validation := c.resolvePolicy(p), config.Spec[*gatewayv1.BackendTLSPolicy](p).Spec.Validation
			for _, s := range sections {
				if !taken[s] {
					taken[s] = true
					list = append(list, backendTLS(validation, resolved, ports[s]))
					from = cmp.Or(from, p)
				}
			}
		}
		hosts, _ := c.meshHosts(target)
		for i, h := range hosts {
			if from == nil {
				break
			}
			key := config.Key{Kind: api.DestinationRule, Namespace: target.Namespace,
				Name: fmt.Sprintf("%s~%s~tls~%d", target.Name, target.Kind, i)}
			spec := &networking.DestinationRule{Host: string(h), ExportTo: []string{"*"}}
			objects = append(objects, newObject(key, from, spec, &config.Extension{Source: from.Key, BackendTLS: list}))
			objects = append(objects, c.certifiedRules(key, from, spec, list, target)...)
		}
		objects = append(objects, c.trafficRules(target)...)
	})
	if !converted {
		return out
	}
	out, keys := c.emitObjects(out, c.rules[target], objects)
	if c.rules[target] = keys; len(keys) == 0 {
		delete(c.rules, target)
	}
	return out
}

// gatewaysTo returns the names of the Gateways that accepted a route that refers to a target, each
// with the name of its controller. A Gateway of several routes has the controller of one of them.
func (c *Converter) gatewaysTo(target config.Key) map[name]string {
	gateways := map[name]string{}
	for k := range c.indexes.reference.Values(target) {
		state := c.routes[k]
		if state == nil {
			continue
		}
		for _, a := range state.attachments {
			if a.gateway != nil && a.accepted.ok() {
				gateways[a.gateway.name] = a.controller
			}
		}
	}
	return gateways
}

// compareNames orders names by namespace, then by name.
func compareNames(a, b name) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// convertedPolicy is what a BackendTLSPolicy was converted to, and the objects that it refers to.
// Its zero value is that of a policy that does not exist.
type convertedPolicy struct {
	refs     []config.Key
	bundle   []*config.Config // of its CA certificates, at most one
	status   *Status
	problems []config.Problem
}

// flushPolicy updates the references, the bundle, the status and the Problems of a
// BackendTLSPolicy. For a policy that does not exist it deletes them. If the conversion panics,
// only the Problem is emitted.
func (c *Converter) flushPolicy(out mesh.Batch, k config.Key) mesh.Batch {
	object := c.objects.all[k]
	var now convertedPolicy
	out, converted := c.guard.Try(out, registry.Convert, k, registry.OriginOf(object), func() {
		if object != nil {
			now = c.convertPolicy(object)
		}
	})
	if !converted {
		return out
	}
	c.setReferences(k, c.policyRefs[k], now.refs)
	c.secrets.replace(c.policyRefs[k], now.refs)
	if c.policyRefs[k] = now.refs; len(now.refs) == 0 {
		delete(c.policyRefs, k)
	}
	out, keys := c.emitObjects(out, c.rules[k], now.bundle)
	if c.rules[k] = keys; len(keys) == 0 {
		delete(c.rules, k)
	}
	c.pending.setStatus(k, now.status)
	return c.emitted.problems.Emit(out, k, now.problems)
}

// convertPolicy converts a BackendTLSPolicy to references, a status, Problems and a bundle. There
// is a bundle only if the policy refers to several objects with CA certificates and at least one of
// them is usable. Failed verdicts, also about targets, are Errors. An ignored policy has only a
// status.
func (c *Converter) convertPolicy(object *config.Config) convertedPolicy {
	if isIgnored(object) {
		return convertedPolicy{status: ignoredStatus(object)}
	}
	resolved := c.resolvePolicy(object)
	now := convertedPolicy{refs: resolved.refs, problems: policyOptionProblems(object)}
	if len(now.refs) > 1 {
		if bundle := c.newBundle(bundleOf(object.Key), object, now.refs); bundle != nil {
			now.bundle = []*config.Config{bundle}
		}
	}
	targets := c.targetVerdicts(object)
	now.status = c.policyStatus(object, resolved.accepted, resolved.resolved, targets)
	for _, v := range slices.Concat([]verdict{resolved.accepted}, targets, []verdict{resolved.resolved}) {
		if !v.ok() {
			now.problems = append(now.problems, newProblem(object, "", config.Error, v))
		}
	}
	return now
}
