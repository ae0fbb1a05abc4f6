package ingress

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// ranked is a rule of one of the Ingresses that have rules for a host.
type ranked struct {
	rule
	of *rules
}

// virtualService makes the VirtualService of a host, of the rules that all Ingresses have for it, oldest first. It names the rules
// that an older one leaves nothing to do. It gives nil for a host that leads nowhere.
func (c *Converter) virtualService(host string, all []*rules) (*config.Config, []config.Problem) {
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
	return c.object(key, first, spec), wrong
}

// gatewaysOf gives the Gateways at which a host is served: that of the oldest Ingress, which stands for all of them where there is no
// TLS, and those that have certificates for it.
func (c *Converter) gatewaysOf(host string, all []*rules) []string {
	var list []string
	for i, r := range all {
		certified := slices.ContainsFunc(r.tls, func(s *networking.Server) bool {
			return slices.ContainsFunc(s.Hosts, func(h string) bool { return mesh.Hostname(h).Matches(mesh.Hostname(host)) })
		})
		if key := c.gatewayKey(r.name); i == 0 || certified {
			list = append(list, key.Namespace+"/"+key.Name)
		}
	}
	return list
}

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
		same.length = 0 // "/" is for as much as no path
		if first, taken := before[same]; taken {
			wrong = append(wrong, shadowed(host, one, first))
			continue
		}
		before[same] = one
		complete = complete || one.everything()
		routes = append(routes, route(one.path, one.to))
	}
	if !complete && fallback != nil {
		routes = append(routes, route(path{}, fallback))
	}
	return routes, wrong
}

func route(p path, to *networking.Destination) *networking.HTTPRoute {
	return &networking.HTTPRoute{Match: p.matches(), Route: []*networking.HTTPRouteDestination{{Destination: to, Weight: 100}}}
}

// shadowed says that a rule is for what another one has already.
func shadowed(host string, r, by ranked) config.Problem {
	where := by.field
	if by.of != r.of {
		where = keyOf(by.of.name).String() + ": " + by.field
	}
	return config.Problem{
		Key: keyOf(r.of.name), Field: r.field, Origin: r.of.origin, Severity: config.Warning,
		Reason: "is never used: " + where + " is for the same path of host \"" + host + "\", and counts",
	}
}
