package snapshot

import (
	"cmp"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// applyService applies one event about a service definition of one registry. It sorts the
// definitions by precedence, and marks the service, its endpoints and, for external addresses, the
// networks as changed. It ignores an event that changes nothing.
func (e *edit) applyService(op mesh.Op, s *mesh.Service) {
	claims := e.definitions.byKey[s.ServiceKey]
	i := slices.IndexFunc(claims, func(c *mesh.Service) bool { return isSameDefinition(c, s) })
	e.networksDirty = e.networksDirty || len(s.External) > 0 || i >= 0 && len(claims[i].External) > 0
	switch {
	case op == mesh.Delete && i < 0, op == mesh.Upsert && i >= 0 && claims[i].Hash == s.Hash:
		return
	case op == mesh.Delete:
		claims = slices.Delete(slices.Clone(claims), i, i+1)
	case i >= 0:
		claims = slices.Clone(claims)
		claims[i] = s
	default:
		claims = append(slices.Clone(claims), s)
	}
	slices.SortFunc(claims, e.compareDefinitions)
	e.setDefinitions(s.ServiceKey, claims)
	add(&e.delta.Services, s.ServiceKey)
	e.dirtyEndpoints[s.ServiceKey] = struct{}{}
	e.markImports(s)
}

// markImports marks the service of the cluster set that has the settings of s, a changed definition
// (mesh.Service.SettingsOf). It does nothing if there is none.
func (e *edit) markImports(s *mesh.Service) {
	if s.Provider != mesh.Kubernetes {
		return
	}
	k := mesh.ServiceKey{Namespace: s.Namespace, Host: mesh.ClusterSetHost(s.Namespace, s.Name)}
	if slices.ContainsFunc(e.definitions.byKey[k], func(d *mesh.Service) bool { return d.SettingsOf == s.Host }) {
		add(&e.delta.Services, k)
		e.dirtyEndpoints[k] = struct{}{}
	}
}

// withSettings returns the definition s of a service of the cluster set with the settings of its
// Service in another cluster, by precedence (compareDefinitions). It returns s itself without
// SettingsOf, and if no cluster has the Service with cluster IPs.
func (e *edit) withSettings(s *mesh.Service) *mesh.Service {
	if s.SettingsOf == "" {
		return s
	}
	for _, of := range e.definitions.byKey[mesh.ServiceKey{Namespace: s.Namespace, Host: s.SettingsOf}] {
		if of.Provider == mesh.Kubernetes && of.Resolution == mesh.Static {
			return of.WithImport(s)
		}
	}
	return s
}

// isSameDefinition reports whether two definitions come from the same object of the same registry
// and cluster.
func isSameDefinition(a, b *mesh.Service) bool {
	return a.Provider == b.Provider && a.Cluster == b.Cluster && a.From == b.From
}

// compareDefinitions orders definitions by precedence: Kubernetes and others, then Consul, then
// ServiceEntries. Of each of the first two, the local cluster precedes others. Then the older
// definition precedes, then the lesser cluster ID, then the lesser object key.
func (e *edit) compareDefinitions(a, b *mesh.Service) int {
	rank := func(s *mesh.Service) int {
		r := 0
		switch {
		case s.Provider.IsEntry():
			return 4
		case s.Provider == mesh.Consul:
			r = 2
		}
		if s.Cluster != e.options.Cluster {
			r++
		}
		return r
	}
	return cmp.Or(
		cmp.Compare(rank(a), rank(b)),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Cluster, b.Cluster),
		a.From.Compare(b.From),
	)
}

// joinServices merges and stores the definitions of each changed service and updates the allocated
// addresses, which can change other services' addresses too. These services are added to
// delta.Services; services whose merged definition is unchanged are removed from it. Then it
// updates the lists of services (listServices). It does nothing if no service changed.
func (e *edit) joinServices() {
	if len(e.delta.Services) == 0 {
		return
	}
	joined := make(map[mesh.ServiceKey]*mesh.Service, len(e.delta.Services))
	var moved []mesh.ServiceKey
	for k := range e.delta.Services {
		joined[k] = e.mergeService(k)
		moved = append(moved, e.planAddresses(k, joined[k])...)
	}
	for _, k := range moved {
		if _, known := joined[k]; !known {
			joined[k] = e.mergeService(k)
			add(&e.delta.Services, k)
		}
	}
	for k, s := range joined {
		if !e.storeService(k, e.addressPlan.withAllocation(s)) {
			delete(e.delta.Services, k) // the changed definition does not change the service
		}
	}
	e.listServices()
}

// storeService stores the merged definition of a service, or deletes it if now is nil, and reports
// whether the service changed. It also updates the cluster addresses and the allocated addresses.
func (e *edit) storeService(k mesh.ServiceKey, now *mesh.Service) bool {
	old := e.services.Get(k)
	if old == nil || now == nil || old.Hash != now.Hash {
		e.clusterAddresses.replaceService(old, now)
	}
	switch {
	case old == nil && now == nil, old != nil && now != nil && old.Hash == now.Hash:
		return false
	case now == nil:
		e.services.Delete(k)
		e.allocated.Delete(k)
		return true
	}
	e.services.Set(k, now)
	if len(now.Allocated) > 0 {
		e.allocated.Set(k, asAllocated(now))
	} else {
		e.allocated.Delete(k)
	}
	return true
}
