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

// Options are what a Builder needs to know from the start.
type Options struct {
	// Domain is the DNS suffix of Kubernetes services; "cluster.local" if empty.
	Domain string
	// Cluster is the local cluster: of two clusters' definitions of a service, its own counts first.
	Cluster mesh.ClusterID
	// Allocation is how services without addresses are given some.
	Allocation Allocation
	// Features become part of the Settings.
	Features Features
	// Recovery confines a panic in Apply to the event that caused it (refused_events.go). If nil, the panic passes.
	Recovery *recovery.Recorder
}

// Builder turns events into snapshots. It is used by one goroutine; the snapshots that it gives out are for everyone.
type Builder struct {
	options  Options
	current  *Snapshot
	settings mesh.Settings

	claims      claims
	addressPlan addressPlan
	workloads   workloads
	gateways    map[gatewayObjectKey]*mesh.GatewayObject
	problems    map[problemScope][]config.Problem
	refused     refusedEvents
}

// NewBuilder makes a Builder whose current snapshot is an empty mesh with default settings.
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
			homes:            newHomes(),
			destinationRules: newDestinationRules(),
			virtualServices:  newVirtualServices(),
		},
		claims:      newClaims(),
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

// Current is the newest snapshot.
func (b *Builder) Current() *Snapshot { return b.current }

// Apply applies the events as one change, in their order. Events that say what is so already change nothing; if nothing
// changed the snapshot is the current one and the Delta is empty. The same events give an equal snapshot.
//
// With Options.Recovery, events that make it panic are refused: the snapshot is the one without them, a Problem names the
// object of each, and later calls try them again.
func (b *Builder) Apply(events ...mesh.Event) (*Snapshot, Delta) {
	delta := b.retry(events)
	d, err := b.try(events)
	if err != nil {
		d = b.isolate(events, err)
	}
	b.acceptApplied(events)
	delta.Merge(d)
	return b.current, delta
}

// apply applies events and finishes the edit.
func (e *edit) apply(events []mesh.Event) (*Snapshot, Delta) {
	for i := range events {
		e.event(&events[i])
	}
	return e.finish()
}

// edit is one Apply under way.
type edit struct {
	*Builder
	next      Snapshot
	delta     Delta
	configs   *cow.Edit[config.Key, *config.Config]
	services  *cow.Edit[mesh.ServiceKey, *mesh.Service]
	allocated *cow.Edit[mesh.ServiceKey, *mesh.Service]
	endpoints *cow.Edit[mesh.ServiceKey, *EndpointSet]
	shards    *cow.Edit[mesh.ServiceKey, []*mesh.Shard]
	homes     homesEdit
	addresses addressEdit

	objects  map[config.Key]struct{}      // config objects that changed, also those that are no part of the delta
	rejoin   map[mesh.ServiceKey]struct{} // services whose endpoints are to be joined again
	undo     undoLog
	outside  bool // gateways of networks may be others: something changed that is, or was, reached from outside its cluster
	problems bool
}

func (b *Builder) edit() *edit {
	c := b.current
	return &edit{
		Builder:   b,
		next:      *c,
		configs:   c.configs.Edit(),
		services:  c.services.Edit(),
		allocated: c.allocated.Edit(),
		endpoints: c.endpoints.Edit(),
		shards:    c.shards.Edit(),
		homes:     c.homes.edit(),
		addresses: addressEdit{c.byAddress.Edit()},
		rejoin:    map[mesh.ServiceKey]struct{}{},
		undo:      undoLog{settings: b.settings},
	}
}

func (e *edit) event(ev *mesh.Event) {
	switch {
	case ev.Config != nil:
		e.config(ev.Op, ev.Config)
	case ev.Service != nil:
		e.service(ev.Op, ev.Service)
	case ev.Shard != nil:
		e.shard(ev.Op, ev.Shard)
	case ev.Workload != nil:
		e.workload(ev.Op, ev.Workload)
	case ev.Settings != nil:
		e.setSettings(ev.Settings)
	case ev.Problems != nil:
		e.setProblems(ev.Source, ev.Problems)
	case ev.Right != nil:
		e.right(ev.Op, ev.Right)
	case ev.KeySet != nil:
		e.keySet(ev.Op, ev.KeySet)
	case ev.Gateways != nil:
		e.gatewayObject(ev.Op, ev.Gateways)
	case ev.Resolved != nil:
		e.resolve(ev.Op, ev.Resolved)
	}
}

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

// finish joins what the events touched, in the order of dependence, and publishes the new snapshot.
func (e *edit) finish() (*Snapshot, Delta) {
	b := e.Builder
	e.joinServices()
	e.joinPeers()
	e.joinEndpoints()
	e.noteAccounts()
	e.joinNetworks()
	e.next.configs = e.configs.Done()
	e.next.services = e.services.Done()
	e.next.allocated = e.allocated.Done()
	e.next.endpoints = e.endpoints.Done()
	e.next.shards = e.shards.Done()
	e.next.homes = e.homes.done()
	e.next.byAddress = e.addresses.Done()
	e.indexConfigs()
	if e.problems {
		e.next.problems = sortedProblems(b.problems)
	}
	if e.delta.Empty() {
		if e.problems || len(e.objects) > 0 || e.next.shards != b.current.shards || e.next.byAddress != b.current.byAddress ||
			!maps.Equal(e.next.resolved, b.current.resolved) {
			b.current = e.seal() // worth remembering, not a push
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

func (e *edit) seal() *Snapshot {
	e.next.Version++
	s := e.next
	return &s
}

// indexConfigs brings the indexes over config objects up to date, those of kinds that changed.
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
		e.next.destinationRules = e.next.destinationRules.rebuilt(rules, e.next.Settings)
	case changed[api.DestinationRule]:
		e.next.destinationRules, e.delta.Rules = e.next.destinationRules.changed(e.ruleGroups(), rules, e.next.Settings)
	}
	switch {
	case e.delta.All:
		e.next.virtualServices = e.next.virtualServices.rebuilt(e.next.Configs(api.VirtualService), e.next.Settings, e.next.Config)
	case changed[api.VirtualService]:
		e.next.virtualServices = e.next.virtualServices.changed(e.changedOf(api.VirtualService), e.next.Settings, e.current.Config, e.next.Config)
	}
	if changed[api.Gateway] || e.delta.All {
		e.next.gateways = newGateways(e.next.Configs(api.Gateway))
	}
	if changed[api.EnvoyFilter] || e.delta.All {
		e.next.envoyFilters = e.next.envoyFilters.rebuilt(e.next.Configs(api.EnvoyFilter), e.next.Settings)
	}
	e.indexPolicies(changed)
	if changed[api.Telemetry] || e.delta.All {
		e.next.telemetries = e.next.telemetries.changed(e.objects, e.delta.All, e.next.Configs(api.Telemetry), e.next.Settings)
	}
}

// changedOf gives the objects of a kind that changed.
func (e *edit) changedOf(kind api.Kind) map[config.Key]bool {
	keys := map[config.Key]bool{}
	for k := range e.objects {
		if k.Kind == kind {
			keys[k] = true
		}
	}
	return keys
}

// ruleGroups gives the groups in which a DestinationRule that changed stands, or stood.
func (e *edit) ruleGroups() map[ruleGroup]struct{} {
	groups := map[ruleGroup]struct{}{}
	for k := range e.objects {
		if k.Kind != api.DestinationRule {
			continue
		}
		for _, c := range []*config.Config{e.current.Config(k), e.next.Config(k)} {
			if g, ok := groupOf(c, e.next.Settings); ok {
				groups[g] = struct{}{}
			}
		}
	}
	return groups
}
