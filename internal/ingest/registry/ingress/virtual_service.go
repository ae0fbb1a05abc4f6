package ingress

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ranked is a rule together with its Ingress.
type ranked struct {
	rule
	of *rules
}

// newVirtualService returns the VirtualService of a host, merged from the rules of all Ingresses.
// They must be sorted oldest first, and the oldest decides its key and age. It returns a Problem
// for each rule that never matches because a rule for the same path precedes it. The object is nil
// if the host has no routes.
func (c *Converter) newVirtualService(host string, all []*rules) (*config.Config, []config.Problem) {
	routes, wrong := routesOf(host, all)
	if len(routes) == 0 {
		return nil, wrong
	}
	first := all[0]
	key := config.Key{
		Kind: api.VirtualService, Namespace: first.Namespace,
		Name: strings.ReplaceAll(host, ".", "-") + "-" + first.Name + "-" + madeBy,
	}
	spec := &networking.VirtualService{Hosts: []string{host}, Gateways: c.gatewaysOf(host, all), Http: routes}
	return c.newObject(key, first, spec), wrong
}

// gatewaysOf returns the Gateways that serve a host: the Gateway of the oldest Ingress, because all
// Gateways serve all hosts in plain HTTP, and the Gateways with a certificate for the host.
func (c *Converter) gatewaysOf(host string, all []*rules) []string {
	var list []string
	for i, r := range all {
		certified := slices.ContainsFunc(r.tls, func(s *networking.Server) bool {
			return slices.ContainsFunc(
				s.Hosts,
				func(h string) bool { return mesh.Hostname(h).Matches(mesh.Hostname(host)) },
			)
		})
		if key := c.gatewayKey(r.name); i == 0 || certified {
			list = append(list, key.Namespace+"/"+key.Name)
		}
	}
	return list
}

// routesOf returns the routes of a host in the order of matching, and a Problem for each rule that
// is shadowed. Of equal paths the first in that order is kept; all must be sorted oldest first. The
// default backend of the first Ingress that has one follows, unless a rule matches all requests.
func routesOf(host string, all []*rules) (routes []*networking.HTTPRoute, wrong []config.Problem) {
	var list []ranked
	var fallback *networking.Destination
	for _, r := range all {
		for _, one := range r.hosts[host] {
			list = append(list, ranked{one, r})
		}
		if fallback == nil {
			fallback = r.fallback
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return a.compare(b.path) })
	before := map[path]ranked{}
	complete := false
	for _, one := range list {
		same := one.path
		same.length = 0 // "/" and no path match the same requests
		if first, taken := before[same]; taken {
			wrong = append(wrong, shadowedProblem(host, one, first))
			continue
		}
		before[same] = one
		complete = complete || one.matchesAll()
		routes = append(routes, newRoute(one.path, one.to))
	}
	if !complete && fallback != nil {
		routes = append(routes, newRoute(path{}, fallback))
	}
	return routes, wrong
}

// newRoute returns a route that sends all requests of a path to one destination.
func newRoute(p path, to *networking.Destination) *networking.HTTPRoute {
	return &networking.HTTPRoute{
		Match: p.matches(),
		Route: []*networking.HTTPRouteDestination{{Destination: to, Weight: 100}},
	}
}

// shadowedProblem returns a Warning that rule r of a host is never used, because rule by is for the
// same path and takes precedence.
func shadowedProblem(host string, r, by ranked) config.Problem {
	where := by.field
	if by.of != r.of {
		where = keyOf(by.of.name).String() + ": " + by.field
	}
	return config.Problem{
		Code: code.OverriddenObject,
		Key:  keyOf(r.of.name), Field: r.field, Origin: r.of.origin, Severity: config.Warning,
		Reason: "is never used: " + where + " is for the same path of host \"" + host + "\", and takes precedence",
	}
}
