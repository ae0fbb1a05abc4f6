package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// checkSubset adds Warnings for a subset of a destination that clients do not know: one if no
// DestinationRule defines it, otherwise one for each of subsetClients that lacks it. It skips
// namespaces whose clients may not use the VirtualService (mayNotUse). A client uses only the first
// rule in its own namespace, the service's or the root namespace, which hides the subsets of the
// others. services must be all services of the host.
func (a *analyzer) checkSubset(
	vs *snapshot.VirtualService,
	services []*mesh.Service,
	host mesh.Hostname,
	subset, field string,
) {
	for _, client := range a.subsetClients(vs, host) {
		rule, missing := a.ruleWithoutSubset(vs, client, services, subset)
		if !missing || a.mayNotUse(vs, client) {
			continue
		}
		definer := a.definerOf(host, subset)
		if definer == nil {
			a.warn(code.ReferencedResourceNotFound, vs.Config, field, fmt.Sprintf(
				"no DestinationRule defines a subset %q of %q: requests that are routed there get 503", subset, host,
			))
			return
		}
		a.warn(code.ReferencedResourceNotFound, vs.Config, field, hiddenText(client, rule, definer, subset, host))
	}
}

// hiddenText returns the reason why clients of a namespace do not know a subset that definer
// defines. rule is the DestinationRule that they use instead, or nil.
func hiddenText(
	client string,
	rule *snapshot.DestinationRule,
	definer *config.Config,
	subset string,
	host mesh.Hostname,
) string {
	name := func(k config.Key) string { return k.Namespace + "/" + k.Name }
	switch {
	case rule == nil:
		return fmt.Sprintf("DestinationRule %q defines the subset %q of %q, but does not apply to clients in namespace %q: "+
			"their requests that are routed there get 503", name(definer.Key), subset, host, client)
	case rule.Selects:
		return fmt.Sprintf("the workloads in namespace %q that DestinationRule %q selects use it instead of %q, which defines "+
			"the subset %q of %q: their requests that are routed there get 503",
			client, name(rule.From[0]), name(definer.Key), subset, host)
	default:
		return fmt.Sprintf("clients in namespace %q use DestinationRule %q instead of %q, which defines the subset %q of %q: "+
			"their requests that are routed there get 503",
			client, name(rule.From[0]), name(definer.Key), subset, host)
	}
}

// ruleWithoutSubset reports in missing whether clients of a namespace do not know a subset of the
// services. If no DestinationRule that they use defines it, missing is true. rule is then the first
// without a workloadSelector, or else the first with one, or nil. If a rule for all clients defines
// it, missing is true only if a rule with a workloadSelector hides it (rule), and no match limits
// the clients (limitsClients). If only rules with a workloadSelector define it, missing is false.
// If missing is false, rule is to be ignored.
func (a *analyzer) ruleWithoutSubset(
	vs *snapshot.VirtualService,
	client string,
	services []*mesh.Service,
	subset string,
) (rule *snapshot.DestinationRule, missing bool) {
	var selecting, general *snapshot.DestinationRule
	var isDefined, isDefinedForAll bool
	for _, s := range services {
		for _, r := range a.s.RulesOf(client, s.ServiceKey) {
			switch {
			case config.Subset(r.Spec, subset) != nil:
				isDefined, isDefinedForAll = true, isDefinedForAll || !r.Selects
			case r.Selects:
				selecting = cmp.Or(selecting, r)
			default:
				general = cmp.Or(general, r)
			}
		}
	}
	if !isDefined {
		return cmp.Or(general, selecting), true
	}
	return selecting, isDefinedForAll && selecting != nil && !limitsClients(vs.Spec)
}

// clientMatch is the part of a match of any kind of route that limits the clients.
type clientMatch interface {
	GetGateways() []string
	GetSourceLabels() map[string]string
	GetSourceNamespace() string
}

// limitsClients reports whether a match of a VirtualService is limited to gateways, or to clients
// with labels or in a namespace.
func limitsClients(spec *networking.VirtualService) bool {
	return slices.ContainsFunc(spec.GetHttp(), func(r *networking.HTTPRoute) bool { return anyLimits(r.GetMatch()) }) ||
		slices.ContainsFunc(spec.GetTls(), func(r *networking.TLSRoute) bool { return anyLimits(r.GetMatch()) }) ||
		slices.ContainsFunc(spec.GetTcp(), func(r *networking.TCPRoute) bool { return anyLimits(r.GetMatch()) })
}

// anyLimits reports whether one of the matches is limited to some clients.
func anyLimits[M clientMatch](matches []M) bool {
	return slices.ContainsFunc(matches, func(m M) bool {
		return len(m.GetGateways()) > 0 || len(m.GetSourceLabels()) > 0 || m.GetSourceNamespace() != ""
	})
}

// definerOf returns the first DestinationRule of any namespace that defines a subset for host, or
// for a wildcard that covers host. It returns nil if there is none.
func (a *analyzer) definerOf(host mesh.Hostname, subset string) *config.Config {
	for _, c := range a.s.Configs(api.DestinationRule) {
		spec := config.Spec[*networking.DestinationRule](c)
		if a.ruleHost(c).Covers(host) && config.Subset(spec, subset) != nil {
			return c
		}
	}
	return nil
}

// subsetClients returns the namespaces of clients that may use the routes of a VirtualService to a
// host (mayNotUse excludes some): its own, the namespaces of the proxies of its Gateways and, if it
// applies to the mesh, namespaces with a DestinationRule for exactly this host. Of a delegate it
// returns only the own namespace.
func (a *analyzer) subsetClients(vs *snapshot.VirtualService, host mesh.Hostname) []string {
	clients := []string{vs.Config.Namespace}
	if len(vs.Hosts) == 0 {
		return clients
	}
	for _, g := range vs.Gateways {
		more := a.gatewayNamespaces(g)
		if g == snapshot.MeshGateway {
			more = a.namespacesWithRule(host)
		}
		for _, namespace := range more {
			if !slices.Contains(clients, namespace) {
				clients = append(clients, namespace)
			}
		}
	}
	return clients
}

// mayNotUse reports whether it is uncertain that clients in a namespace use the routes of a
// VirtualService. Clients in its own namespace, and its gateways, use them. Sidecars of another
// namespace may not: it is not exported to them, a Sidecar may not import it, or they see another
// VirtualService for one of its hosts. The root namespace usually has no sidecars. Neither gateways
// nor other namespaces are certain if a match is limited to some clients.
func (a *analyzer) mayNotUse(vs *snapshot.VirtualService, namespace string) bool {
	root := a.s.Settings.RootNamespace
	switch {
	case namespace == vs.Config.Namespace:
		return false
	case limitsClients(vs.Spec):
		return true
	case slices.ContainsFunc(vs.Gateways, func(g string) bool {
		return slices.Contains(a.gatewayNamespaces(g), namespace)
	}):
		return false
	case namespace == root, !vs.IsVisibleTo(namespace):
		return true
	}
	return slices.ContainsFunc(a.s.Configs(api.Sidecar), func(c *config.Config) bool {
		return c.Namespace == namespace || c.Namespace == root
	}) || slices.ContainsFunc(a.s.VirtualServices(), func(o *snapshot.VirtualService) bool {
		return o.Config.Key != vs.Config.Key && o.IsVisibleTo(namespace) &&
			slices.Contains(o.Gateways, snapshot.MeshGateway) &&
			slices.ContainsFunc(o.Hosts, func(h mesh.Hostname) bool { return slices.ContainsFunc(vs.Hosts, h.Matches) })
	})
}

// namespacesWithRule returns the sorted namespaces that have a DestinationRule for exactly host. It
// fills a.ruleNamespaces at the first call. The result must not be modified.
func (a *analyzer) namespacesWithRule(host mesh.Hostname) []string {
	if a.ruleNamespaces == nil {
		a.ruleNamespaces = map[mesh.Hostname][]string{}
		for _, c := range a.s.Configs(api.DestinationRule) { // sorted by namespace
			h := a.ruleHost(c)
			if list := a.ruleNamespaces[h]; !slices.Contains(list, c.Namespace) {
				a.ruleNamespaces[h] = append(list, c.Namespace)
			}
		}
	}
	return a.ruleNamespaces[host]
}

// ruleHost returns the host of a DestinationRule, with a short name completed by the rule's
// namespace and the domain.
func (a *analyzer) ruleHost(c *config.Config) mesh.Hostname {
	return mesh.ResolveShortName(config.Spec[*networking.DestinationRule](c).Host, c.Namespace, a.s.Settings.Domain)
}

// gatewayNamespaces returns the namespaces of the known workloads that a Gateway NAMESPACE/NAME
// selects, sorted. With the feature ScopeGateways, only the Gateway's own namespace counts. It
// returns none for a Gateway without a selector, for a missing one, and for "mesh". It caches the
// result in a.gatewayWorkloads, so it must not be modified.
func (a *analyzer) gatewayNamespaces(gateway string) []string {
	if list, known := a.gatewayWorkloads[gateway]; known {
		return list
	}
	namespace, name, _ := strings.Cut(gateway, "/")
	var list []string
	if c := a.s.Config(config.Key{Kind: api.Gateway, Namespace: namespace, Name: name}); c != nil {
		selector := config.Spec[*networking.Gateway](c).GetSelector()
		for _, w := range a.s.Workloads() {
			inScope := !a.s.Settings.Features.ScopeGateways || w.Namespace == namespace
			if inScope && snapshot.SelectorMatches(selector, w.Labels) && !slices.Contains(list, w.Namespace) {
				list = append(list, w.Namespace)
			}
		}
	}
	slices.Sort(list)
	if a.gatewayWorkloads == nil {
		a.gatewayWorkloads = map[string][]string{}
	}
	a.gatewayWorkloads[gateway] = list
	return list
}
