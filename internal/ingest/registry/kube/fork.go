package kube

import (
	"maps"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
)

var _ registry.Forker = (*Converter)(nil)

// Fork returns a Converter with the same state, which changes independently of c. It copies the
// indexes, in a time that is proportional to the number of objects. ClusterSetServices and
// PendingEndpoints of the fork are empty.
func (c *Converter) Fork() registry.Converter {
	f := &Converter{
		options:     c.options,
		source:      c.source,
		guard:       c.guard.Clone(),
		trustDomain: c.trustDomain,

		network:       c.network,
		networks:      c.networks,
		nodes:         maps.Clone(c.nodes),
		distributions: maps.Clone(c.distributions),

		services: maps.Clone(c.services),
		imports:  maps.Clone(c.imports),
		exports:  maps.Clone(c.exports),
		slices:   maps.Clone(c.slices),
		pods:     make(map[name]*pod, len(c.pods)),

		servicesIn:   c.servicesIn.Clone(),
		onNodes:      maps.Clone(c.onNodes),
		slicesOf:     c.slicesOf.Clone(),
		slicesOfPod:  c.slicesOfPod.Clone(),
		slicesOfAddr: c.slicesOfAddr.Clone(),
		podsOn:       c.podsOn.Clone(),
		podsAt:       c.podsAt.Clone(),

		dirtyServices: maps.Clone(c.dirtyServices),
		dirtyImports:  maps.Clone(c.dirtyImports),
		dirtyPods:     maps.Clone(c.dirtyPods),
		dirtySlices:   maps.Clone(c.dirtySlices),

		emitted: c.emitted.clone(),
		pending: pending{bySlice: maps.Clone(c.pending.bySlice)},
	}
	for k, p := range c.pods {
		once := *p // its workload is set in place
		f.pods[k] = &once
	}
	return f
}

// clone returns a copy of the emitters that changes independently, without pending changes.
func (e emitted) clone() emitted {
	return emitted{
		services:   e.services.Clone(),
		imports:    e.imports.Clone(),
		workloads:  e.workloads.Clone(),
		shards:     e.shards.Clone(),
		clusterSet: e.clusterSet.Clone(),
		gateways:   e.gateways.Clone(),
		problems:   e.problems.Clone(),
	}
}
