package precedence

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
)

// destinationRuleRelations compares a DestinationRule with the rules that the View's proxies use
// for services with its host. It loses against a rule without it. To the other parts of a merged
// rule it is MergedAfter the earlier ones and MergedFirst before the later ones. A wildcard host is
// compared with all services that it covers, so there may be duplicates. Services without a rule
// have no relation.
func destinationRuleRelations(v *view.View, c *config.Config) []Relation {
	host := mesh.ResolveShortName(config.Spec[*networking.DestinationRule](c).GetHost(), c.Namespace, v.Settings.Domain)
	var list []Relation
	for _, svc := range v.Services {
		if svc.Host != host && !host.Covers(svc.Host) {
			continue
		}
		used := v.DestinationRule(svc.Host)
		if used == nil {
			continue
		}
		at := slices.Index(used.From, c.Key)
		if at < 0 {
			list = append(list, Relation{
				Effect: Loses, Object: used.From[0], Host: svc.Host, Reason: ruleReason(used, c, host, v.Key.Namespace),
			})
			continue
		}
		for i, other := range used.From {
			switch {
			case i < at:
				list = append(list, Relation{Effect: MergedAfter, Object: other, Host: used.Host, Reason: mergeReason})
			case i > at:
				list = append(list, Relation{Effect: MergedFirst, Object: other, Host: used.Host, Reason: mergeReason})
			}
		}
	}
	return list
}

// mergeReason describes the merge of DestinationRules.
const mergeReason = "trafficPolicy and equal subsets are those of the oldest"

// ruleReason returns the reason why proxies of the namespace client use the DestinationRule used
// and not c. host is the full host of c. It does not check that they do.
func ruleReason(used *snapshot.DestinationRule, c *config.Config, host mesh.Hostname, client string) string {
	switch {
	case used.Selects && config.Spec[*networking.DestinationRule](c).GetWorkloadSelector() == nil:
		return "it selects the workload"
	case used.Namespace == client && c.Namespace != client:
		return "it is in the namespace of the client"
	case used.Namespace != c.Namespace:
		return "the rule of namespace " + used.Namespace + " is used by clients of namespace " + client
	case used.Host != host:
		return "its host " + string(used.Host) + " is more specific"
	default:
		return "the rule is not exported to namespace " + client + " or does not select the workload"
	}
}

// serviceEntryRelations compares a ServiceEntry with other definitions of its hosts. These are the
// service that the View's proxies use, if it is from another object, or else other ServiceEntries
// with the host. Other ServiceEntries of its namespace are merged with it, others are not used.
func serviceEntryRelations(v *view.View, c *config.Config) []Relation {
	var list []Relation
	for _, text := range config.Spec[*networking.ServiceEntry](c).GetHosts() {
		host := mesh.Hostname(strings.ToLower(text))
		svc := v.Service(host)
		if svc != nil && svc.From != (config.Key{}) && svc.From != c.Key {
			r := Relation{Effect: Loses, Object: svc.From, Host: host}
			switch {
			case svc.Namespace == c.Namespace && svc.From.Kind == api.ServiceEntry:
				r.Effect, r.Reason = MergedAfter, "resolution and location are those of the oldest; ports and endpoints are added"
			case svc.Namespace == c.Namespace:
				r.Reason = "only the endpoints of this one are used, for ports that both have"
			default:
				r.Reason = "proxies of namespace " + v.Key.Namespace + " use the service of namespace " + svc.Namespace
			}
			list = append(list, r)
			continue
		}
		for _, other := range v.Snapshot.Configs(api.ServiceEntry) {
			if other == c || !slices.ContainsFunc(config.Spec[*networking.ServiceEntry](other).GetHosts(), func(h string) bool {
				return strings.EqualFold(h, text)
			}) {
				continue
			}
			r := Relation{Effect: Prevails, Object: other.Key, Host: host}
			if other.Namespace == c.Namespace {
				r.Effect, r.Reason = MergedFirst, "resolution and location are those of the oldest; ports and endpoints are added"
			} else {
				r.Reason = "for proxies of namespace " + v.Key.Namespace
			}
			list = append(list, r)
		}
	}
	return list
}

// gatewayRelations compares a Gateway with others whose servers have the same port. It returns one
// relation for each common port: MergedFirst if c is older, else MergedAfter. It returns nil unless
// the View's proxies are routers that serve c.
func gatewayRelations(v *view.View, c *config.Config) []Relation {
	if v.Gateway() == nil || !v.Key.Gateways.Has(c.Key) {
		return nil
	}
	own := portsOf(c)
	var list []Relation
	for _, other := range v.Snapshot.Gateways(v.Key.Gateways) {
		if other == c {
			continue
		}
		for _, port := range portsOf(other) {
			if slices.Contains(own, port) {
				r := byAge(c, other, MergedFirst, MergedAfter, fmt.Sprintf("port %d", port))
				r.Reason += "; it prevails if protocols, TLS settings or hosts conflict"
				list = append(list, r)
			}
		}
	}
	return list
}

// portsOf returns the port numbers of a Gateway's servers, without duplicates.
func portsOf(c *config.Config) []uint32 {
	var list []uint32
	for _, s := range config.Spec[*networking.Gateway](c).GetServers() {
		if n := s.GetPort().GetNumber(); !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}
