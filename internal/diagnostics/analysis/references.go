package analysis

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// References returns the Problems of the references of one object, which need not be in the
// snapshot, to objects there. They are destinations and gateways of VirtualServices, and hosts of
// DestinationRules. For objects of other kinds it returns nil. The Problems are Warnings, in the
// order of the fields, perhaps with duplicates.
func References(s *snapshot.Snapshot, c *config.Config) []config.Problem {
	a := &analyzer{s: s}
	switch c.Kind {
	case api.VirtualService:
		vs := s.ResolveVirtualService(c)
		a.reportDestinations(vs)
		a.reportGateways(vs)
	case api.DestinationRule:
		a.reportRuleHost(c)
	}
	return a.found
}

// reportVirtualServices reports destinations that do not exist, of all routes and mirrors. Routes
// of a delegate are checked with the delegate. Converted VirtualServices are skipped, because their
// backends have been checked.
func (a *analyzer) reportVirtualServices() {
	for _, vs := range a.s.VirtualServices() {
		if vs.Config.Extension != nil {
			continue // The converter has checked the backends.
		}
		a.reportDestinations(vs)
	}
}

// reportDestinations adds Warnings for each destination of one VirtualService that does not exist
// (checkDestination): of HTTP, TCP and TLS routes, and of mirrors.
func (a *analyzer) reportDestinations(vs *snapshot.VirtualService) {
	spec := config.Spec[*networking.VirtualService](vs.Config)
	for i, r := range spec.Http {
		for j, d := range r.Route {
			a.checkDestination(vs, d.GetDestination(), fmt.Sprintf("spec.http[%d].route[%d].destination", i, j))
		}
		if r.Mirror != nil {
			a.checkDestination(vs, r.Mirror, fmt.Sprintf("spec.http[%d].mirror", i))
		}
		for j, m := range r.Mirrors {
			a.checkDestination(vs, m.GetDestination(), fmt.Sprintf("spec.http[%d].mirrors[%d].destination", i, j))
		}
	}
	for i, r := range spec.Tcp {
		for j, d := range r.Route {
			a.checkDestination(vs, d.GetDestination(), fmt.Sprintf("spec.tcp[%d].route[%d].destination", i, j))
		}
	}
	for i, r := range spec.Tls {
		for j, d := range r.Route {
			a.checkDestination(vs, d.GetDestination(), fmt.Sprintf("spec.tls[%d].route[%d].destination", i, j))
		}
	}
}

// checkDestination adds a Warning for a destination whose host does not exist. Otherwise it adds
// one if no service of the host has the port, and Warnings about the subset (checkSubset). An empty
// host is left to validation.
func (a *analyzer) checkDestination(vs *snapshot.VirtualService, d *networking.Destination, field string) {
	if d.GetHost() == "" {
		return // reported by validation
	}
	host := vs.ResolveHost(d.Host)
	services := a.servicesFor(host)
	if len(services) == 0 {
		a.warn(
			code.ReferencedResourceNotFound,
			vs.Config,
			field+".host",
			fmt.Sprintf("no service has the host %q: requests that are routed there get 503", host),
		)
		return
	}
	if n := d.GetPort().
		GetNumber(); n != 0 &&
		!slices.ContainsFunc(services, func(s *mesh.Service) bool { _, ok := s.Port(n); return ok }) {
		a.warn(
			code.ReferencedResourceNotFound,
			vs.Config,
			field+".port.number",
			fmt.Sprintf("service %q has no port %d: requests that are routed there get 503", host, n),
		)
	}
	if d.Subset != "" {
		a.checkSubset(vs, services, host, d.Subset, field+".subset")
	}
}

// servicesFor returns the services with exactly this host, in any namespace, or if there are none,
// all services with a wildcard that covers it. The result may be a part of the snapshot's list and
// must not be modified.
func (a *analyzer) servicesFor(host mesh.Hostname) []*mesh.Service {
	all := a.s.Services() // sorted by hostname
	i, _ := slices.BinarySearchFunc(all, host, func(s *mesh.Service, h mesh.Hostname) int {
		switch {
		case s.Host < h:
			return -1
		case s.Host > h:
			return 1
		default:
			return 0
		}
	})
	j := i
	for j < len(all) && all[j].Host == host {
		j++
	}
	if i < j {
		return all[i:j]
	}
	var wild []*mesh.Service
	for _, s := range all { // wildcard hosts sort first
		if !s.Host.IsWildcard() {
			break
		}
		if s.Host.Covers(host) {
			wild = append(wild, s)
		}
	}
	return wild
}

// hasSubset reports whether a DestinationRule that clients in the namespace client may use defines
// the subset for one of the services.
func (a *analyzer) hasSubset(client string, services []*mesh.Service, subset string) bool {
	for _, s := range services {
		for _, r := range a.s.RulesOf(client, s.ServiceKey) { // at least some clients use it
			if config.Subset(r.Spec, subset) != nil {
				return true
			}
		}
	}
	return false
}
