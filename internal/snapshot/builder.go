package snapshot

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// Options configure a Builder.
type Options struct {
	// Domain is the DNS suffix of Kubernetes services; "cluster.local" if empty.
	Domain string
	// Cluster is the local cluster. If several clusters define a service, its definition takes
	// precedence.
	Cluster mesh.ClusterID
	// Allocation configures addresses for services that have none.
	Allocation Allocation
	// Features are copied to the Settings.
	Features Features
	// Recovery confines a panic in Apply to the event that caused it (refused_events.go). If nil,
	// the panic propagates.
	Recovery *recovery.Recorder
}

// Builder converts events to snapshots. It must be used by one goroutine at a time; the snapshots
// that it returns are immutable and can be shared.
type Builder struct {
	options  Options
	current  *Snapshot
	settings mesh.Settings

	definitions serviceDefinitions
	addressPlan addressPlan
	// needsAddressPlan is set if addressPlan must be built from the services before its next use.
	needsAddressPlan bool
	workloads        workloads
	gateways         map[gatewayObjectKey]*mesh.GatewayObject
	problems         map[problemScope][]config.Problem
	refused          refusedEvents
}

// NewBuilder returns a Builder whose current snapshot is an empty mesh with default settings.
// Without a domain it is cluster.local.
func NewBuilder(o Options) *Builder {
	if o.Domain == "" {
		o.Domain = "cluster.local"
	}
	b := &Builder{
		options: o,
		current: &Snapshot{
			Settings:         resolveSettings(mesh.Settings{}, o),
			Derived:          new(Derived),
			Visibility:       new(Derived),
			Catalog:          new(Derived),
			configs:          cow.New[config.Key, *config.Config](),
			services:         cow.New[mesh.ServiceKey, *mesh.Service](),
			allocated:        cow.New[mesh.ServiceKey, *mesh.Service](),
			endpoints:        cow.New[mesh.ServiceKey, *EndpointSet](),
			byAddress:        newAddresses(),
			shards:           cow.New[mesh.ServiceKey, []*mesh.Shard](),
			clusterAddresses: newClusterAddresses(),
			destinationRules: newDestinationRules(),
			virtualServices:  newVirtualServices(),
		},
		definitions: newServiceDefinitions(),
		addressPlan: newAddressPlan(o.Allocation),
		workloads:   newWorkloads(),
		gateways:    map[gatewayObjectKey]*mesh.GatewayObject{},
		problems:    map[problemScope][]config.Problem{},
		refused:     refusedEvents{events: map[subject]*refusedEvent{}},
	}
	if len(o.Allocation.Ranges) > 0 {
		b.current.allocation = &b.options.Allocation
	}
	return b
}

// Current returns the newest snapshot, an empty one before the first Apply. It is never nil.
func (b *Builder) Current() *Snapshot { return b.current }

// Apply applies the events in their order as one change, and returns the resulting snapshot with
// the Delta to the previous one. An event that repeats the current state changes nothing. If no
// event changes anything, Apply returns the current snapshot and an empty Delta. For changes that
// need no push, such as Problems, it returns a new snapshot with an empty Delta. The result depends
// only on the events, so replicas agree.
//
// With Options.Recovery, an event that causes a panic is refused: the snapshot is built without it
// and a Problem names its object. Later calls retry it. Without Recovery the panic propagates.
func (b *Builder) Apply(events ...mesh.Event) (*Snapshot, Delta) {
	if b.needsAddressPlan {
		b.needsAddressPlan = false
		b.rebuildAddressPlan()
	}
	delta := b.retryRefused(events)
	d, err := b.applyOrRollBack(events)
	if err != nil {
		d = b.refuseFailing(events, err)
	}
	b.acceptApplied(events)
	delta.Merge(d)
	return b.current, delta
}

// applyAll applies events in their order and publishes the result as the current snapshot (finish).
func (e *edit) applyAll(events []mesh.Event) (*Snapshot, Delta) {
	for i := range events {
		e.applyEvent(&events[i])
	}
	return e.finish()
}

// edit is the state of one call of Apply.
type edit struct {
	*Builder
	next             Snapshot
	delta            Delta
	configs          *cow.Edit[config.Key, *config.Config]
	services         *cow.Edit[mesh.ServiceKey, *mesh.Service]
	allocated        *cow.Edit[mesh.ServiceKey, *mesh.Service]
	endpoints        *cow.Edit[mesh.ServiceKey, *EndpointSet]
	shards           *cow.Edit[mesh.ServiceKey, []*mesh.Shard]
	clusterAddresses clusterAddressesEdit
	addresses        addressEdit

	// changed config objects, including kinds that are not part of the Delta
	objects        map[config.Key]struct{}
	dirtyEndpoints map[mesh.ServiceKey]struct{} // services whose endpoints must be merged again
	undo           undoLog
	// network gateways must be computed again: a service or object that defines some has changed
	networksDirty bool
	problems      bool
}

// newEdit returns an edit that begins with the current snapshot. b.current changes only with
// finish, but events change other fields of b, such as its settings, at once (rollback).
func (b *Builder) newEdit() *edit {
	c := b.current
	return &edit{
		Builder:          b,
		next:             *c,
		configs:          c.configs.Edit(),
		services:         c.services.Edit(),
		allocated:        c.allocated.Edit(),
		endpoints:        c.endpoints.Edit(),
		shards:           c.shards.Edit(),
		clusterAddresses: c.clusterAddresses.edit(),
		addresses:        addressEdit{c.byAddress.Edit()},
		dirtyEndpoints:   map[mesh.ServiceKey]struct{}{},
		undo:             undoLog{settings: b.settings},
	}
}

// applyEvent applies an event according to the one field that it sets. An event without any, such
// as Synced, does nothing here.
func (e *edit) applyEvent(ev *mesh.Event) {
	switch {
	case ev.Config != nil:
		e.applyConfig(ev.Op, ev.Config)
	case ev.Service != nil:
		e.applyService(ev.Op, ev.Service)
	case ev.Shard != nil:
		e.applyShard(ev.Op, ev.Shard)
	case ev.Workload != nil:
		e.applyWorkload(ev.Op, ev.Workload)
	case ev.Settings != nil:
		e.setSettings(ev.Settings)
	case ev.Problems != nil:
		e.setProblems(ev.Source, ev.Problems)
	case ev.SecretAccess != nil:
		e.applySecretAccess(ev.Op, ev.SecretAccess)
	case ev.KeySet != nil:
		e.applyKeySet(ev.Op, ev.KeySet)
	case ev.Gateways != nil:
		e.applyGatewayObject(ev.Op, ev.Gateways)
	case ev.Resolved != nil:
		e.applyResolvedName(ev.Op, ev.Resolved)
	}
}

// setSettings merges the fields of s that are set into the settings; nil fields change nothing. If
// the result is equal, it does nothing; otherwise everything may have changed (delta.All).
// RootsComing stays set until roots arrive.
func (e *edit) setSettings(s *mesh.Settings) {
	next := e.Builder.settings
	if s.Mesh != nil {
		next.Mesh = s.Mesh
	}
	if s.Networks != nil {
		next.Networks = s.Networks
	}
	next.RootsComing = next.RootsComing || s.RootsComing
	if s.Roots != nil {
		next.Roots, next.RootsComing = s.Roots, false
	}
	if s.Bundles != nil {
		next.Bundles = s.Bundles
	}
	if proto.Equal(next.Mesh, e.Builder.settings.Mesh) && proto.Equal(next.Networks, e.Builder.settings.Networks) &&
		slices.Equal(next.Roots, e.Builder.settings.Roots) && next.RootsComing == e.Builder.settings.RootsComing &&
		maps.Equal(next.Bundles, e.Builder.settings.Bundles) {
		return
	}
	e.Builder.settings = next
	e.next.Settings = resolveSettings(next, e.options)
	e.delta.All = true
}

// finish merges everything that the events have touched, in the order of dependencies, and
// publishes the new snapshot. It replaces the caches Derived, Visibility and Catalog if the changes
// affect them. If nothing has changed it returns the current snapshot. The Delta is also empty for
// changes that need no push, such as Problems.
func (e *edit) finish() (*Snapshot, Delta) {
	b := e.Builder
	e.joinServices()
	e.joinPeers()
	e.joinEndpoints()
	e.markChangedAccounts()
	e.joinNetworks()
	e.next.configs = e.configs.Done()
	e.next.services = e.services.Done()
	e.next.allocated = e.allocated.Done()
	e.next.endpoints = e.endpoints.Done()
	e.next.shards = e.shards.Done()
	e.next.clusterAddresses = e.clusterAddresses.result()
	e.next.byAddress = e.addresses.Done()
	e.indexConfigs()
	if e.problems {
		e.next.problems = sortedProblems(b.problems)
	}
	if e.delta.Empty() {
		if e.problems || len(e.objects) > 0 || e.next.shards != b.current.shards ||
			e.next.byAddress != b.current.byAddress ||
			!maps.Equal(e.next.resolved, b.current.resolved) {
			b.current = e.seal() // part of the snapshot, but no reason for a push
		}
		return b.current, Delta{}
	}
	if !e.delta.EndpointsOnly() {
		e.next.Derived = new(Derived)
	}
	if e.delta.ChangesVisibility() {
		e.next.Visibility = new(Derived)
	}
	if e.delta.All || len(e.delta.Services) > 0 {
		e.next.Catalog = new(Derived)
	}
	b.current = e.seal()
	return b.current, e.delta
}

// seal increments the version of the next snapshot, and returns a copy of it.
func (e *edit) seal() *Snapshot {
	e.next.Version++
	s := e.next
	return &s
}

// indexConfigs updates the lists and indexes of the config kinds of e.objects, which are the
// changed ones. If delta.All is set it rebuilds the indexes of all kinds. Otherwise it sets
// delta.Rules to the hosts whose rows differ if DestinationRules changed.
func (e *edit) indexConfigs() {
	changed := map[api.Kind]bool{}
	for k := range e.objects {
		changed[k.Kind] = true
	}
	for kind := range changed {
		e.indexKind(kind)
	}
	switch rules := e.next.Configs(api.DestinationRule); {
	case e.delta.All:
		e.next.destinationRules = e.next.destinationRules.rebuildIndex(rules, e.next.Settings)
	case changed[api.DestinationRule]:
		e.next.destinationRules, e.delta.Rules = e.next.destinationRules.updateIndex(
			e.changedRuleGroups(),
			rules,
			e.next.Settings,
		)
	}
	switch {
	case e.delta.All:
		e.next.virtualServices = e.next.virtualServices.rebuildIndex(
			e.next.Configs(api.VirtualService),
			e.next.Settings,
			e.next.Config,
		)
	case changed[api.VirtualService]:
		e.next.virtualServices = e.next.virtualServices.updateIndex(
			e.changedObjects(api.VirtualService),
			e.next.Settings,
			e.current.Config,
			e.next.Config,
		)
	}
	if changed[api.Gateway] || e.delta.All {
		e.next.gateways = newGateways(e.next.Configs(api.Gateway))
	}
	if changed[api.EnvoyFilter] || e.delta.All {
		e.next.envoyFilters = e.next.envoyFilters.rebuildIndex(e.next.Configs(api.EnvoyFilter), e.next.Settings)
	}
	e.indexPolicies(changed)
	if changed[api.Telemetry] || e.delta.All {
		e.next.telemetries = e.next.telemetries.updateIndex(
			e.objects,
			e.delta.All,
			e.next.Configs(api.Telemetry),
			e.next.Settings,
		)
	}
}

// changedObjects returns the keys of the changed and deleted objects of a kind, never nil.
func (e *edit) changedObjects(kind api.Kind) map[config.Key]bool {
	keys := map[config.Key]bool{}
	for k := range e.objects {
		if k.Kind == kind {
			keys[k] = true
		}
	}
	return keys
}

// changedRuleGroups returns the groups (namespace and host) that the changed DestinationRules
// belong to, before and after the change. Both are resolved with the new settings. An object that
// was added or deleted has only one of them.
func (e *edit) changedRuleGroups() map[ruleGroup]struct{} {
	groups := map[ruleGroup]struct{}{}
	for k := range e.objects {
		if k.Kind != api.DestinationRule {
			continue
		}
		for _, c := range []*config.Config{e.current.Config(k), e.next.Config(k)} {
			if g, ok := ruleGroupOf(c, e.next.Settings); ok {
				groups[g] = struct{}{}
			}
		}
	}
	return groups
}
