package debug

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Health is what is odd in a mesh without being wrong in any one object: the numbers behind istiod's gauges.
type Health struct {
	// EndpointsNotReady are endpoints that are known and not healthy.
	EndpointsNotReady int
	// NoInstances are services without any endpoint, of those whose endpoints proxies are told; DNSWithoutEndpoints of
	// those that proxies resolve.
	NoInstances, DNSWithoutEndpoints int
	// DuplicateDomains are hosts that several VirtualServices claim for sidecars, DuplicateSubsets hosts for which one
	// namespace defines a subset more than once.
	DuplicateDomains, DuplicateSubsets int
}

// HealthOf counts. It goes through the whole snapshot.
func HealthOf(s *snapshot.Snapshot) Health {
	h := Health{NoInstances: len(Empty(s)), DuplicateDomains: duplicateDomains(s), DuplicateSubsets: duplicateSubsets(s)}
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

// duplicateDomains counts the hosts of which only the oldest VirtualService's rules count. One that only its own namespace
// sees goes before a public one there, which is as it should be.
func duplicateDomains(s *snapshot.Snapshot) int {
	type claim struct {
		host  mesh.Hostname
		owner string // the namespace of private ones
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

func moreThanOnce[K comparable](counts map[K]int) int {
	n := 0
	for _, c := range counts {
		if c > 1 {
			n++
		}
	}
	return n
}

// Trouble is how much there is on the pages that one would rather have empty.
type Trouble struct {
	// Orphans are connected proxies at whose addresses nothing is known, Conflicts what does not get what it asks for
	// because others have the place, Rejects the refusals that stand.
	Orphans, Conflicts, Rejects int
	// Errors and Warnings are of problemz.
	Errors, Warnings int
}

// Trouble counts. It asks for the state of all connections.
func (p *Pages) Trouble() Trouble {
	s, list := p.Snapshot(), p.Proxies.Connections()
	var t Trouble
	for _, c := range list {
		if Orphan(s, c.Proxy) {
			t.Orphans++
		}
	}
	found := p.problems(list)
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
