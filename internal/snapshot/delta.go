package snapshot

import (
	"maps"
	"net/netip"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Delta names what differs between two snapshots.
type Delta struct {
	// All says that anything may differ: the first snapshot, or changed settings.
	All bool
	// Services appeared, went, or changed in their definition.
	Services map[mesh.ServiceKey]struct{}
	// Endpoints are the services whose endpoints differ.
	Endpoints map[mesh.ServiceKey]struct{}
	// Accounts are those of them whose endpoints have other accounts than before, or all of which take mutual TLS only since, or
	// only until then.
	Accounts map[mesh.ServiceKey]struct{}
	// Configs appeared, went or changed in content.
	Configs map[config.Key]struct{}
	// Rules are the hosts, wildcards too, for which the DestinationRule of some namespace differs. The objects are among
	// Configs.
	Rules map[mesh.Hostname]struct{}
	// Workloads are the addresses at which a workload appeared, went or changed, Served those at which the service ports
	// that endpoints serve differ. A proxy there may have other services of its own.
	Workloads, Served map[netip.Addr]struct{}
	// Rights are the accounts of which it came to be known, or changed, whether they may read Secrets.
	Rights map[mesh.Account]struct{}
	// KeySets are the sources of token issuers' keys of which other keys came to be known, or other faults.
	KeySets map[mesh.KeySource]struct{}
}

// Empty says that nothing differs.
func (d Delta) Empty() bool {
	return !d.All && len(d.Services) == 0 && len(d.Endpoints) == 0 && len(d.Configs) == 0 && len(d.Workloads) == 0 && len(d.Rights) == 0 &&
		len(d.KeySets) == 0
}

// EndpointsOnly says that nothing but endpoints (and the workloads behind them) differs: no scope, no route, no listener
// of any proxy does, except for proxies at the Workloads' addresses.
func (d Delta) EndpointsOnly() bool {
	return !d.All && len(d.Services) == 0 && len(d.Configs) == 0 && len(d.Rights) == 0 && len(d.KeySets) == 0
}

// ChangesVisibility says whether what some proxy sees of the mesh may differ: services, VirtualServices, Sidecars.
func (d Delta) ChangesVisibility() bool {
	if d.All || len(d.Services) > 0 {
		return true
	}
	for k := range d.Configs {
		if k.Kind == api.VirtualService || k.Kind == api.Sidecar {
			return true
		}
	}
	return false
}

// Merge makes d name also what o names.
func (d *Delta) Merge(o Delta) {
	d.All = d.All || o.All
	d.Services = union(d.Services, o.Services)
	d.Endpoints = union(d.Endpoints, o.Endpoints)
	d.Accounts = union(d.Accounts, o.Accounts)
	d.Configs = union(d.Configs, o.Configs)
	d.Rules = union(d.Rules, o.Rules)
	d.Workloads = union(d.Workloads, o.Workloads)
	d.Served = union(d.Served, o.Served)
	d.Rights = union(d.Rights, o.Rights)
	d.KeySets = union(d.KeySets, o.KeySets)
}

// union gives a map of all that is in either, b's where both have it; one of the two itself if the other has nothing. Maps are
// shared, and not changed any more once they are in a Delta that was given out.
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

func add[K comparable](set *map[K]struct{}, k K) {
	if *set == nil {
		*set = map[K]struct{}{}
	}
	(*set)[k] = struct{}{}
}
