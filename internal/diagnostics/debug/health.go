package debug

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Health contains the numbers behind istiod's gauges. They count conditions that are unusual in a
// mesh but not an error of any single object.
type Health struct {
	// EndpointsNotReady is the number of known endpoints that are not healthy.
	EndpointsNotReady int
	// NoInstances is the number of services without endpoints among those with static resolution.
	// DNSWithoutEndpoints is the same number among services that proxies resolve by DNS.
	NoInstances, DNSWithoutEndpoints int
	// DuplicateDomains is the number of hosts that more than one VirtualService defines for
	// sidecars. DuplicateSubsets is the number of subsets that one namespace defines more than once
	// for a host.
	DuplicateDomains, DuplicateSubsets int
}

// HealthOf returns the numbers of faults in a snapshot, which it scans as a whole. They are
// services without endpoints, static ones (ServicesWithoutEndpoints) and ones with resolution DNS
// or DNSRoundRobin, and endpoints that are not healthy. They are also hosts and subsets that are
// defined several times (duplicateDomains, duplicateSubsets).
func HealthOf(s *snapshot.Snapshot) Health {
	h := Health{
		NoInstances:      len(ServicesWithoutEndpoints(s)),
		DuplicateDomains: duplicateDomains(s),
		DuplicateSubsets: duplicateSubsets(s),
	}
	for _, svc := range s.Services() {
		list := s.Endpoints(svc.ServiceKey).Endpoints
		if len(list) == 0 && (svc.Resolution == mesh.DNS || svc.Resolution == mesh.DNSRoundRobin) {
			h.DNSWithoutEndpoints++
		}
		for _, e := range list {
			if e.Health != mesh.Healthy {
				h.EndpointsNotReady++
			}
		}
	}
	return h
}

// duplicateDomains returns the number of hosts that occur more than once in VirtualServices for
// sidecars (the gateway mesh). Only the rules of the oldest apply to them. A private VirtualService
// is compared only with private ones of its namespace: there, it intentionally precedes a public
// one.
func duplicateDomains(s *snapshot.Snapshot) int {
	type claim struct {
		host  mesh.Hostname
		owner string // the namespace if the VirtualService is private
	}
	claims := map[claim]int{}
	for _, vs := range s.VirtualServices() {
		forSidecars := false
		for _, g := range vs.Gateways {
			forSidecars = forSidecars || g == snapshot.MeshGateway
		}
		if !forSidecars {
			continue
		}
		owner := ""
		if vs.IsPrivate() {
			owner = vs.Config.Namespace
		}
		for _, host := range vs.Hosts {
			claims[claim{host, owner}]++
		}
	}
	return moreThanOnce(claims)
}

// duplicateSubsets returns the number of subsets, by namespace, host and name, that
// DestinationRules define more than once. Two DestinationRules, or the same one, may define them;
// only rules of one namespace are compared. Short host names are resolved.
func duplicateSubsets(s *snapshot.Snapshot) int {
	type subset struct {
		namespace string
		host      mesh.Hostname
		name      string
	}
	subsets := map[subset]int{}
	for _, c := range s.Configs(api.DestinationRule) {
		spec := config.Spec[*networking.DestinationRule](c)
		host := mesh.ResolveShortName(spec.Host, c.Namespace, s.Settings.Domain)
		for _, x := range spec.Subsets {
			subsets[subset{c.Namespace, host, x.Name}]++
		}
	}
	return moreThanOnce(subsets)
}

// moreThanOnce returns the number of keys whose count is above 1.
func moreThanOnce[K comparable](counts map[K]int) int {
	n := 0
	for _, c := range counts {
		if c > 1 {
			n++
		}
	}
	return n
}

// Trouble contains the numbers of entries on the pages that report errors.
type Trouble struct {
	// Orphans is the number of connected proxies without a known workload or endpoint at their
	// addresses. Conflicts is the number of Problems of objects that lose a conflict over the same
	// place. Rejects is the number of NACKs that are still in effect.
	Orphans, Conflicts, Rejects int
	// Errors and Warnings are the numbers of Problems in problemz, by severity.
	Errors, Warnings int
}

// Trouble computes the current numbers of orphans (proxies of unknown workloads), Problems by
// severity, conflicts, and rejections that have not ended. All Problems but Errors count as
// Warnings. It reads the state of all connections, and records new Problems like collectProblems.
func (p *Pages) Trouble() Trouble {
	s, list := p.Snapshot(), p.Proxies.StreamStates()
	var t Trouble
	for _, c := range list {
		if IsOrphan(s, c.Proxy) {
			t.Orphans++
		}
	}
	found := p.collectProblems(list)
	for _, x := range found.all {
		if x.Severity == config.Error {
			t.Errors++
		} else {
			t.Warnings++
		}
	}
	t.Conflicts = found.conflicts
	for _, n := range p.Proxies.Nacks() {
		if n.Standing {
			t.Rejects++
		}
	}
	return t
}
