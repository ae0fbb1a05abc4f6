package cluster

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/internal/translate/policy"
)

// usedFeatures returns the features of view.ClusterFeatures that this cluster would use if the
// proxies' Envoy supports them: TransportSocketMatcher for a port whose protocol is detected,
// RetryBudgetInterval if it is set, SelectedHostKey for an InferencePool.
func (in OutboundInput) usedFeatures() view.EnvoyFeatures {
	var used view.EnvoyFeatures
	if port, ok := in.Service.Port(in.Port); ok && port.Protocol == mesh.Auto {
		used |= view.TransportSocketMatcher
	}
	p := policy.Of(in.Settings.Mesh, in.destinationRule(), in.Subset, in.Port)
	if p.GetRetryBudget().GetBudgetInterval() != nil {
		used |= view.RetryBudgetInterval
	}
	if len(in.Service.PoolPorts) > 0 {
		used |= view.SelectedHostKey
	}
	return used
}

// retryBudget returns the retry budget of p, or nil if it has none. If the proxies' Envoy does not
// support an interval, it returns a copy without it.
func (in OutboundInput) retryBudget(p *networking.TrafficPolicy) *networking.TrafficPolicy_RetryBudget {
	budget := p.GetRetryBudget()
	if budget.GetBudgetInterval() == nil || !in.Proxy.Lacks.Has(view.RetryBudgetInterval) {
		return budget
	}
	budget = proto.CloneOf(budget)
	budget.BudgetInterval = nil
	return budget
}

// EnvoyProblems returns a Warning for each setting of a View's clusters that has no effect because
// of its proxies' Envoy version: retry budget intervals, then endpoint pickers. Each has a
// DestinationRule or an InferencePool as Key, and no Origin. If the proxies have client
// certificates, a last Warning is for all ports of undeclared protocol, with the Origin "proxies"
// and no Key.
func EnvoyProblems(v *view.View) []config.Problem {
	var found []config.Problem
	lacks := v.Key.MissingFeatures
	if lacks.Has(view.RetryBudgetInterval) {
		found = budgetProblems(v)
	}
	if lacks.Has(view.SelectedHostKey) {
		found = append(found, pickerProblems(v)...)
	}
	if lacks.Has(view.TransportSocketMatcher) && v.Key.ClientCredentials != (mesh.Credentials{}) &&
		slices.ContainsFunc(v.Services, hasUndeclaredPort) {
		found = append(found, config.Problem{
			Code:   code.FieldWithoutEffect,
			Origin: "proxies", Field: "Envoy", Severity: config.Warning,
			Reason: fmt.Sprintf("some proxies run %s: over mutual TLS, the requests that they send to ports of undeclared "+
				"protocol are raw TCP to the server's proxy; declare the protocol (name or appProtocol of the port), or upgrade",
				view.TransportSocketMatcher.LackingEnvoys()),
		})
	}
	return found
}

// pickerProblems returns a Warning for the endpointPickerRef of each InferencePool that the View's
// gateways see, sorted. It returns nil for sidecars, which ask no endpoint pickers. The caller
// checks that the View's Envoy lacks SelectedHostKey.
func pickerProblems(v *view.View) []config.Problem {
	if v.Key.Type != mesh.RouterProxy {
		return nil
	}
	var found []config.Problem
	for _, svc := range v.Services {
		if len(svc.PoolPorts) > 0 {
			found = append(found, config.Problem{
				Code: code.FieldWithoutEffect,
				Key:  svc.From, Field: "spec.endpointPickerRef", Severity: config.Warning,
				Reason: fmt.Sprintf("gateways with %s do not report to the endpoint picker which endpoint answered (%s)",
					view.SelectedHostKey.LackingEnvoys(), servedEndpoint),
			})
		}
	}
	slices.SortFunc(found, config.Problem.Compare)
	return found
}

// hasUndeclaredPort reports whether a port of the service has no declared protocol (mesh.Auto).
func hasUndeclaredPort(svc *mesh.Service) bool {
	return slices.ContainsFunc(svc.Ports, func(p mesh.Port) bool { return p.Protocol == mesh.Auto })
}

// budgetProblems returns a Warning for each retryBudget.budgetInterval, of a host or a subset, in
// the DestinationRules for the View's services, sorted and without duplicates. Objects that the
// snapshot lacks are skipped. The caller checks that the View's Envoy lacks RetryBudgetInterval.
func budgetProblems(v *view.View) []config.Problem {
	var found []config.Problem
	warn := func(k config.Key, field string, p *networking.TrafficPolicy) {
		if p.GetRetryBudget().GetBudgetInterval() != nil {
			found = append(found, config.Problem{
				Code: code.FieldWithoutEffect,
				Key:  k, Field: field + ".retryBudget.budgetInterval", Severity: config.Warning,
				Reason: fmt.Sprintf("has no effect on proxies with %s: their budget counts the active requests only",
					view.RetryBudgetInterval.LackingEnvoys()),
			})
		}
	}
	for _, svc := range v.Services {
		rule := v.DestinationRule(svc.Host)
		if rule == nil {
			continue
		}
		for _, from := range rule.From {
			c := v.Snapshot.Config(from)
			if c == nil {
				continue
			}
			for field, p := range config.TrafficPolicies(config.Spec[*networking.DestinationRule](c)) {
				warn(from, field, p)
			}
		}
	}
	slices.SortFunc(found, config.Problem.Compare)
	return slices.Compact(found)
}
