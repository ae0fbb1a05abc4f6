package snapshot

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshpilot/meshpilot/internal/base/recovery"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// recovering returns a Builder that recovers panics, its log and the number of panics.
func recovering() (b *Builder, log *strings.Builder, panics *int) {
	log, panics = new(strings.Builder), new(int)
	return NewBuilder(Options{Cluster: "Kubernetes", Allocation: DefaultAllocation(), Recovery: recovery.New(recovery.Options{
		Log: slog.New(slog.NewTextHandler(log, nil)), Count: func(string) { *panics++ },
	})}), log, panics
}

// poisonedRule returns an object whose spec is nil: indexing it panics.
func poisonedRule(name string, hash uint64) mesh.Event {
	return mesh.Event{Source: "test", Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.DestinationRule, Namespace: "shop", Name: name}}, Hash: hash}}
}

func (s *Snapshot) refusals() (list []string) {
	for _, p := range s.Problems() {
		if strings.HasPrefix(p.Reason, "internal error") {
			list = append(list, p.Key.String())
		}
	}
	return list
}

// TestPanicCostsOneEvent: if one event of a batch panics, all others are applied. Its object keeps
// its last good version, is named in a Problem, and works again when it is fixed.
func TestPanicCostsOneEvent(t *testing.T) {
	b, log, panics := recovering()
	good := object(t, api.DestinationRule, "shop", "r", 1, &networking.DestinationRule{Host: "a"})
	b.Apply(upsert(good))
	web := service("shop", "web", 80)
	s, d := b.Apply(mesh.Event{Service: web.Sealed()}, poisonedRule("r", 7), mesh.Event{Shard: shard(web, "web-1", "10.0.0.1")})
	if n := len(s.Endpoints(web.ServiceKey).Endpoints); n != 1 || len(d.Services) != 1 {
		t.Errorf("the service of the batch has %d endpoints, delta %+v", n, d)
	}
	if s.Config(good.Key) != good {
		t.Errorf("the rule is %v, want the last good version", s.Config(good.Key))
	}
	if got := s.refusals(); !slices.Equal(got, []string{"DestinationRule/shop/r"}) {
		t.Errorf("named are %v", got)
	}
	if *panics == 0 || !strings.Contains(log.String(), "object=DestinationRule/shop/r") || !strings.Contains(log.String(), "destination_rule") {
		t.Errorf("%d panics, log %s", *panics, log)
	}
	fixed := object(t, api.DestinationRule, "shop", "r", 1, &networking.DestinationRule{Host: "b"})
	s, _ = b.Apply(upsert(fixed))
	if s.Config(good.Key) != fixed || len(s.refusals()) != 0 || len(b.refused.events) != 0 {
		t.Errorf("fixed: %v, problems %v", s.Config(good.Key), s.Problems())
	}
}

// TestRefusedEventIsTriedAgain: an event whose panic depends on another object is applied when that
// object is deleted.
func TestRefusedEventIsTriedAgain(t *testing.T) {
	b, _, panics := recovering()
	web := service("shop", "web", 80)
	bad := web
	bad.Ports = []mesh.Port{{Name: "http-80", Number: 80, Protocol: mesh.HTTP, Target: 80}}
	broken := shard(web, "web-1", "10.0.0.1")
	broken.Endpoints, broken.Hash = append(broken.Endpoints, nil), 99
	// The endpoints are read when there is a service of the name: before, they harm nothing.
	s, _ := b.Apply(mesh.Event{Shard: broken})
	if len(s.refusals()) != 0 {
		t.Fatalf("problems %v", s.Problems())
	}
	s, _ = b.Apply(mesh.Event{Service: bad.Sealed()})
	if got := s.refusals(); len(got) != 1 || s.Service(web.ServiceKey) != nil {
		t.Fatalf("named are %v, service %v", got, s.Service(web.ServiceKey))
	}
	b.Apply(mesh.Event{Shard: shard(web, "web-1", "10.0.0.1")})
	for i := range 5 {
		s, _ = b.Apply(upsert(object(t, api.Sidecar, "shop", fmt.Sprint(i), 0, &networking.Sidecar{})))
	}
	if s.Service(web.ServiceKey) == nil || len(s.refusals()) != 0 {
		t.Errorf("the service is not back: problems %v", s.Problems())
	}
	before := *panics
	for i := range 100 {
		b.Apply(upsert(object(t, api.Sidecar, "shop", fmt.Sprint("later", i), 0, &networking.Sidecar{})))
	}
	if *panics != before {
		t.Errorf("%d panics after it was applied", *panics-before)
	}
}

// TestRefusedEventsOfClusters: the shards that objects of one name list for a service in two
// clusters are refused and accepted separately.
func TestRefusedEventsOfClusters(t *testing.T) {
	b, _, _ := recovering()
	web := service("shop", "web", 80)
	b.Apply(mesh.Event{Service: web.Sealed()})
	in := func(cluster mesh.ClusterID) *mesh.Shard {
		s := shard(web, "web-1", "10.0.0.1")
		s.Key.Cluster = cluster
		return s
	}
	broken := func(cluster mesh.ClusterID) mesh.Event {
		s := in(cluster)
		s.Endpoints, s.Hash = append(s.Endpoints, nil), 99
		return mesh.Event{Shard: s}
	}
	east, west := broken("east"), broken("west")
	if x, y := subjectOf(&east), subjectOf(&west); x.compare(y) == 0 {
		t.Errorf("%v and %v have no order", x, y)
	}
	if s, _ := b.Apply(east, west); len(s.refusals()) == 0 || len(b.refused.events) != 2 {
		t.Fatalf("%d events are refused, problems %v", len(b.refused.events), s.refusals())
	}
	if s, _ := b.Apply(mesh.Event{Shard: in("east")}); len(s.refusals()) != 1 || len(b.refused.events) != 1 {
		t.Errorf("%d events are refused after one was fixed, problems %v", len(b.refused.events), s.refusals())
	}
	if s, _ := b.Apply(mesh.Event{Shard: in("west")}); len(s.refusals()) != 0 || len(b.refused.events) != 0 {
		t.Errorf("%d events are refused after both were fixed, problems %v", len(b.refused.events), s.refusals())
	}
}

// TestRetriesBackOff: an event that always panics is tried ten times in a thousand calls, not a
// thousand times.
func TestRetriesBackOff(t *testing.T) {
	b, _, panics := recovering()
	b.Apply(poisonedRule("r", 7))
	for i := range 1000 {
		b.Apply(upsert(object(t, api.Sidecar, "shop", fmt.Sprint(i), 0, &networking.Sidecar{})))
	}
	if *panics > 12 {
		t.Errorf("%d panics", *panics)
	}
	for i := len(b.refused.events); i < maxRefused; i++ {
		b.refused.events[subject{source: fmt.Sprint(i)}] = &refusedEvent{at: 1 << 40}
	}
	b.Apply(poisonedRule("one more", 7))
	if len(b.refused.events) > maxRefused {
		t.Errorf("%d refused events are kept", len(b.refused.events))
	}
}

// TestNoRecoveryWithoutRecorder: unit tests of others see panics.
func TestNoRecoveryWithoutRecorder(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewBuilder(Options{}).Apply(poisonedRule("r", 7))
}

// TestRollback: whatever batches come, with poisoned events anywhere in them, the Builder is the
// same as one that was never sent the poisoned ones, in its snapshots and in its own state.
func TestRollback(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		poisoned, _, _ := recovering()
		clean, _, _ := recovering()
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		for step := range rapid.IntRange(1, 4).Draw(t, "steps") {
			var with, without []mesh.Event
			for i := range rapid.IntRange(1, 6).Draw(t, "events") {
				id := uint64(step*10 + i + 1)
				if rapid.IntRange(0, 3).Draw(t, "poison") == 0 {
					with = append(with, poison(t, names.Draw(t, "name"), id))
					continue
				}
				e := harmless(t, names.Draw(t, "name"), id)
				with, without = append(with, e), append(without, e)
			}
			got, _ := poisoned.Apply(with...)
			want, _ := clean.Apply(without...)
			if diff := cmp.Diff(stateOf(want, clean), stateOf(got, poisoned)); diff != "" {
				t.Fatalf("step %d (-want +got):\n%s", step, diff)
			}
		}
	})
}

// poison draws an event that panics in one of the phases of an edit, after other phases have
// changed the Builder.
func poison(t *rapid.T, name string, id uint64) mesh.Event {
	poisonedName := "poison-" + name
	switch rapid.IntRange(0, 2).Draw(t, "phase") {
	case 0:
		return poisonedRule(poisonedName, id)
	// panics when endpoints are joined: it brings its own service's key, which the harmless events
	// also have
	case 1:
		e := entry(poisonedName, id)
		e.Service.Ports = nil
		return mesh.Event{Source: "test", Shard: &mesh.Shard{
			Service: entry(name, id).Service.ServiceKey, Hash: id, Endpoints: []*mesh.Endpoint{nil},
			Key: mesh.ShardKey{Object: config.Key{Kind: api.ServiceEntry, Namespace: "shop", Name: poisonedName}},
		}}
	default:
		return mesh.Event{Source: "test", Config: &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.VirtualService, Namespace: "shop", Name: poisonedName}}, Hash: id}}
	}
}

func entry(name string, id uint64) mesh.Event {
	s := mesh.Service{
		ServiceKey: mesh.ServiceKey{Namespace: "shop", Host: mesh.Hostname(name + ".example.com")}, Provider: mesh.External, Name: name,
		Resolution: mesh.Static, Allocates: true, Ports: []mesh.Port{{Name: "http", Number: uint32(80 + id), Protocol: mesh.HTTP}},
		Selector: map[string]string{"app": name}, SelectsWorkloadEntries: true,
		From: config.Key{Kind: api.ServiceEntry, Namespace: "shop", Name: name},
	}
	return mesh.Event{Source: "test", Service: s.Sealed()}
}

func harmless(t *rapid.T, name string, id uint64) mesh.Event {
	var e mesh.Event
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0, 1:
		e = entry(name, id)
		if rapid.Bool().Draw(t, "addresses") { // takes an address that another may have been given
			named := *e.Service
			named.Addresses, named.Hash = []string{fmt.Sprintf("240.240.0.%d", id)}, 0
			e.Service = named.Sealed()
		}
	case 2:
		e = mesh.Event{Workload: mesh.Workload{
			Provider: mesh.External, Namespace: "shop", Name: name, Addresses: []string{fmt.Sprintf("10.0.0.%d", id)}, Labels: map[string]string{"app": name}, Ready: true,
			From: config.Key{Kind: api.WorkloadEntry, Namespace: "shop", Name: name},
		}.Sealed()}
	case 3:
		e = mesh.Event{Config: &config.Config{
			Meta: config.Meta{Key: config.Key{Kind: api.DestinationRule, Namespace: "shop", Name: name}}, Hash: id,
			Spec: &networking.DestinationRule{Host: name + ".example.com"},
		}}
	default:
		e = mesh.Event{Problems: &mesh.Problems{Scope: name, List: []config.Problem{{Reason: fmt.Sprint(id)}}}}
	}
	if rapid.IntRange(0, 4).Draw(t, "delete") == 0 && e.Problems == nil {
		e.Op = mesh.Delete
	}
	e.Source = "test"
	return e
}

// stateOf returns the compared parts of a Builder and its snapshot as text.
func stateOf(s *Snapshot, b *Builder) map[string]string {
	state := map[string]string{}
	for _, svc := range s.Services() {
		state["service "+string(svc.Host)] = fmt.Sprint(*svc)
		for _, e := range s.Endpoints(svc.ServiceKey).Endpoints {
			state["endpoint "+string(svc.Host)+" "+e.Address+" "+e.ServicePort] = fmt.Sprint(*e)
		}
	}
	for k, c := range s.configs.All() {
		state["config "+k.String()] = fmt.Sprint(c.Hash)
	}
	for _, p := range s.Problems() {
		if !strings.HasPrefix(p.Reason, "internal error") {
			state["problem "+p.String()] = ""
		}
	}
	for a, at := range s.byAddress.All() {
		state["address "+a.String()] = fmt.Sprint(len(at.Workloads), at.Targets)
	}
	for k, list := range b.definitions.byKey {
		state["claims "+string(k.Host)] = fmt.Sprint(len(list))
	}
	for kind, index := range map[string]servicesByNamespace{
		"selecting pods":    b.definitions.podSelecting,
		"selecting entries": b.definitions.entrySelecting,
	} {
		for ns, keys := range index {
			if len(keys) > 0 {
				state[kind+" "+ns] = fmt.Sprint(len(keys))
			}
		}
	}
	for kind, index := range map[string]workloadsByNamespace{"pods": b.workloads.pods, "entries": b.workloads.entries} {
		for ns, ws := range index {
			if len(ws) > 0 {
				state[kind+" "+ns] = fmt.Sprint(slices.Sorted(maps.Keys(workloadTexts(ws))))
			}
		}
	}
	for k, list := range b.addressPlan.named {
		state["named "+string(k.Host)] = fmt.Sprint(list)
	}
	for _, pool := range b.addressPlan.pools {
		for _, svc := range s.Services() {
			state["plan "+string(svc.Host)+" "+pool.prefix.String()] = pool.Address(vipKey(svc.ServiceKey)).String()
		}
	}
	return state
}

func workloadTexts(ws map[workloadKey]*mesh.Workload) map[string]bool {
	names := map[string]bool{}
	for k, w := range ws {
		names[k.name+fmt.Sprint(w.Addresses)] = true
	}
	return names
}
