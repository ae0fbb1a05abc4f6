package snapshot

import (
	"maps"
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Delta describes the difference between two snapshots.
type Delta struct {
	// All is set if anything may differ: for the first snapshot, and after a change of settings.
	All bool
	// Services were added, removed or changed in their definition.
	Services map[mesh.ServiceKey]struct{}
	// Endpoints are the services whose endpoints changed.
	Endpoints map[mesh.ServiceKey]struct{}
	// Accounts are the services whose endpoints have other service accounts than before, or whose
	// EndpointSet.TLSPorts changed. They are a subset of Endpoints.
	Accounts map[mesh.ServiceKey]struct{}
	// Configs were added, removed or changed in content.
	Configs map[config.Key]struct{}
	// Rules are the hosts, including wildcards, for which the DestinationRule of some namespace
	// changed. Configs contains the objects.
	Rules map[mesh.Hostname]struct{}
	// Workloads are the addresses at which a workload was added, removed or changed. Served are the
	// addresses at which the service ports of endpoints changed. The inbound side of a proxy at
	// such an address may differ.
	Workloads, Served map[netip.Addr]struct{}
	// SecretAccess are the accounts whose access to Secrets became known or changed.
	SecretAccess map[mesh.Account]struct{}
	// KeySets are the sources of token issuers' keys whose keys or errors changed.
	KeySets map[mesh.KeySource]struct{}
}

// Empty reports whether nothing differs. Accounts, Rules and Served are not considered, because
// they never differ alone.
func (d Delta) Empty() bool {
	return !d.All && len(d.Services) == 0 && len(d.Endpoints) == 0 && len(d.Configs) == 0 && len(d.Workloads) == 0 &&
		len(d.SecretAccess) == 0 &&
		len(d.KeySets) == 0
}

// EndpointsOnly reports whether nothing but endpoints and their workloads differs, or nothing at
// all. Then scopes, routes and listeners are unchanged for all proxies, except for proxies at the
// addresses in Workloads.
func (d Delta) EndpointsOnly() bool {
	return !d.All && len(d.Services) == 0 && len(d.Configs) == 0 && len(d.SecretAccess) == 0 && len(d.KeySets) == 0
}

// AltersOnlyEDS reports whether the only resources that may differ are endpoints (EDS), for all
// proxies but those at the addresses in Workloads and Served. That is so if nothing but endpoints
// differs (EndpointsOnly), and not their service accounts, which clusters verify.
func (d Delta) AltersOnlyEDS() bool { return d.EndpointsOnly() && len(d.Accounts) == 0 }

// ChangesKind reports whether objects of a kind were added, removed or changed. It also returns
// true if All is set.
func (d Delta) ChangesKind(kind api.Kind) bool {
	if d.All {
		return true
	}
	for k := range d.Configs {
		if k.Kind == kind {
			return true
		}
	}
	return false
}

// ChangesVisibility reports whether the set of services, VirtualServices or Sidecars that proxies
// see may differ. It returns true for any change of such an object, and if All is set.
func (d Delta) ChangesVisibility() bool {
	return len(d.Services) > 0 || d.ChangesKind(api.VirtualService) || d.ChangesKind(api.Sidecar)
}

// Merge adds the contents of o to d. Neither's maps are modified, but d may share maps with o
// afterwards.
func (d *Delta) Merge(o Delta) {
	d.All = d.All || o.All
	d.Services = union(d.Services, o.Services)
	d.Endpoints = union(d.Endpoints, o.Endpoints)
	d.Accounts = union(d.Accounts, o.Accounts)
	d.Configs = union(d.Configs, o.Configs)
	d.Rules = union(d.Rules, o.Rules)
	d.Workloads = union(d.Workloads, o.Workloads)
	d.Served = union(d.Served, o.Served)
	d.SecretAccess = union(d.SecretAccess, o.SecretAccess)
	d.KeySets = union(d.KeySets, o.KeySets)
}

// union returns a map with the entries of both; b takes precedence. If one is empty, it returns the
// other one itself, without a copy: maps in a published Delta are never modified.
func union[K comparable, V any](a, b map[K]V) map[K]V {
	switch {
	case len(b) == 0:
		return a
	case len(a) == 0:
		return b
	}
	a = maps.Clone(a)
	maps.Copy(a, b)
	return a
}

// add inserts k into a set, which may be nil.
func add[K comparable](set *map[K]struct{}, k K) {
	if *set == nil {
		*set = map[K]struct{}{}
	}
	(*set)[k] = struct{}{}
}
