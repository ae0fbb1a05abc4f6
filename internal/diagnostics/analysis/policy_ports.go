package analysis

import (
	"fmt"
	"iter"
	"strconv"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// reportPolicyPorts adds a Warning for each port in an AuthorizationPolicy's operation.ports at
// which the selected gateways do not listen. Often it is a Service port with another target port
// (ISTIO-SECURITY-2021-002). It skips AuthorizationPolicies without selector labels, and policies
// whose proxies may be sidecars, which accept connections to any port (see gatewayPorts). It does
// not check notPorts or conditions.
func (a *analyzer) reportPolicyPorts() {
	for _, c := range a.s.Configs(api.AuthorizationPolicy) {
		spec := config.Spec[*security.AuthorizationPolicy](c)
		labels := spec.GetSelector().GetMatchLabels()
		if len(labels) == 0 {
			continue
		}
		listens, known := a.gatewayPorts(c.Namespace, labels)
		if !known {
			continue
		}
		for field, n := range operationPorts(spec) {
			if !listens[n] {
				a.warn(code.PolicyPortUnused, c, field, fmt.Sprintf(
					"no Gateway has these proxies listen at port %d: ports are the proxy's own, to which Services lead", n,
				))
			}
		}
	}
}

// operationPorts returns an iterator over the field and the number of each port in the operations
// of an AuthorizationPolicy's rules, in order. It skips texts that are no number from 0 to 65535,
// and notPorts.
func operationPorts(policy *security.AuthorizationPolicy) iter.Seq2[string, uint32] {
	return func(yield func(string, uint32) bool) {
		for i, r := range policy.GetRules() {
			for j, to := range r.GetTo() {
				for k, text := range to.GetOperation().GetPorts() {
					field := fmt.Sprintf("spec.rules[%d].to[%d].operation.ports[%d]", i, j, k)
					if n, err := strconv.ParseUint(text, 10, 16); err == nil && !yield(field, uint32(n)) {
						return
					}
				}
			}
		}
	}
}

// gatewayPorts returns all ports at which proxies with the labels may listen for Gateways. In doubt
// a port is included. known is false if no Gateway certainly selects the proxies. If a target port
// is known only to the proxy, it returns nil and false.
func (a *analyzer) gatewayPorts(namespace string, labels map[string]string) (listens map[uint32]bool, known bool) {
	listens = map[uint32]bool{}
	for _, c := range a.s.Configs(api.Gateway) {
		g := config.Spec[*networking.Gateway](c)
		selector := g.GetSelector()
		if a.s.Settings.Features.ScopeGateways && c.Namespace != namespace || labelsContradict(selector, labels) {
			continue
		}
		known = known || len(selector) > 0 && snapshot.SelectorMatches(selector, labels)
		for _, s := range g.GetServers() {
			if !a.addTargetPorts(namespace, labels, s.GetPort().GetNumber(), listens) {
				return nil, false
			}
		}
	}
	return listens, known
}

// addTargetPorts sets to[p] for each target port p to which the proxies' Services map the port
// number. If no Service certainly maps number, it sets to[number]. It returns false if a target
// port is unknown; to may then have some of the ports. Untranslated Services are ignored
// (view.IsUntranslated).
func (a *analyzer) addTargetPorts(namespace string, labels map[string]string, number uint32, to map[uint32]bool) bool {
	translated := false
	for _, svc := range a.s.ServicesWithSelector(namespace) {
		if view.IsUntranslated(svc) || labelsContradict(svc.Selector, labels) {
			continue
		}
		if p, ok := svc.Port(number); ok {
			if p.Target == 0 {
				return false
			}
			to[p.Target] = true
			translated = translated || snapshot.SelectorMatches(svc.Selector, labels)
		}
	}
	if !translated {
		to[number] = true
	}
	return true
}

// labelsContradict reports whether no workload can have both sets of labels. A label that only one
// of the sets has does not matter.
func labelsContradict(a, b map[string]string) bool {
	for k, own := range a {
		if v, ok := b[k]; ok && v != own {
			return true
		}
	}
	return false
}
