package gatewayapi

import (
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot/cow"
)

// emitted contains an Emitter per kind of event, so that only differences are emitted.
type emitted struct {
	objects  *emit.Emitter[config.Key, *config.Config]
	services *emit.Emitter[config.Key, *mesh.Service] // by InferencePool
	problems *emit.ProblemEmitter[config.Key]
}

// newEmitted returns emitters to which nothing has been emitted yet. Objects are equal if hash and
// origin are.
func newEmitted() emitted {
	same := func(a, b *config.Config) bool { return a.Hash == b.Hash && a.Origin == b.Origin }
	return emitted{
		objects:  emit.NewEmitter[config.Key](same),
		services: emit.NewEmitter[config.Key](func(a, b *mesh.Service) bool { return a.Hash == b.Hash }),
		problems: emit.NewProblemEmitter(source, config.Key.String),
	}
}

// emitService appends the change of the service of an InferencePool, if s differs from the one
// emitted last. A nil s deletes it.
func (e *emitted) emitService(out mesh.Batch, pool config.Key, s *mesh.Service) mesh.Batch {
	if s == nil {
		e.services.Delete(pool)
	} else {
		e.services.Set(pool, s)
	}
	for _, x := range e.services.Drain() {
		if x.HasNew {
			out = append(out, mesh.Event{Source: source, Service: x.New})
			continue
		}
		gone := &mesh.Service{
			ServiceKey: x.Old.ServiceKey, Provider: x.Old.Provider, Cluster: x.Old.Cluster, Name: x.Old.Name,
			From: x.Old.From,
		}
		out = append(out, mesh.Event{Op: mesh.Delete, Source: source, Service: gone})
	}
	return out
}

// pendingChanges are the changes of statuses and Deployments since the last call of notify.
type pendingChanges struct {
	statuses    map[config.Key]*Status
	deployments map[config.Key]*Deployment
	// reported are the keys whose changes have not been reported yet, because the source is not in
	// sync.
	reported, reportedDeployments map[config.Key]struct{}
}

// newPendingChanges returns pendingChanges without a change.
func newPendingChanges() pendingChanges {
	return pendingChanges{
		statuses: map[config.Key]*Status{}, deployments: map[config.Key]*Deployment{},
		reported: map[config.Key]struct{}{}, reportedDeployments: map[config.Key]struct{}{},
	}
}

// setStatus sets the desired status of an object, which notify publishes. A nil s deletes it.
func (p *pendingChanges) setStatus(k config.Key, s *Status) { p.statuses[k] = s }

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[V any](m map[config.Key]V) []config.Key {
	return slices.SortedFunc(maps.Keys(m), config.Key.Compare)
}

// notify publishes new statuses and Deployments and calls the callbacks for what changed. Before
// Synced it calls none, and keeps what changed for later. Callbacks get the keys sorted.
func (c *Converter) notify() {
	p := &c.pending
	publish(p.statuses, &c.statuses, p.reported)
	publish(p.deployments, &c.deployed, p.reportedDeployments)
	if !c.synced {
		return
	}
	if keys := sortedKeys(p.reported); len(keys) > 0 && c.options.OnStatusesChanged != nil {
		c.options.OnStatusesChanged(keys)
	}
	if keys := sortedKeys(p.reportedDeployments); len(keys) > 0 && c.options.OnDeploymentsChanged != nil {
		c.options.OnDeploymentsChanged(keys)
	}
	clear(p.reported)
	clear(p.reportedDeployments)
	if c.secrets.changed && c.options.OnReferencesChanged != nil {
		c.options.OnReferencesChanged(sortedKeys(c.secrets.count))
	}
	c.secrets.changed = false
}

// publish applies changes to the current map, in which nil deletes, and stores the resulting map.
// It adds the keys whose values differ to changed, and clears changes.
func publish[V any](
	changes map[config.Key]*V,
	current *atomic.Pointer[cow.Map[config.Key, *V]],
	changed map[config.Key]struct{},
) {
	if len(changes) == 0 {
		return
	}
	edit := current.Load().Edit()
	for k, v := range changes {
		old := edit.Get(k)
		switch {
		case v == nil && old == nil, v != nil && old != nil && reflect.DeepEqual(v, old):
			continue
		case v == nil:
			edit.Delete(k)
		default:
			edit.Set(k, v)
		}
		changed[k] = struct{}{}
	}
	clear(changes)
	current.Store(edit.Done())
}

// emitObjects appends the changes of the objects that an input object is converted to. Objects in
// list that equal those emitted last are skipped, and objects in before that are not in list are
// deleted. It also returns the keys of list.
func (c *Converter) emitObjects(out mesh.Batch, before []config.Key, list []*config.Config) (mesh.Batch, []config.Key) {
	var keys []config.Key
	for _, o := range list {
		keys = append(keys, o.Key)
		c.emitted.objects.Set(o.Key, o)
	}
	for _, k := range before {
		if !slices.Contains(keys, k) {
			c.emitted.objects.Delete(k)
		}
	}
	for _, x := range c.emitted.objects.Drain() {
		if x.HasNew {
			out = append(out, mesh.Event{Source: source, Config: x.New})
		} else {
			gone := &config.Config{Meta: config.Meta{Key: x.Key}}
			out = append(out, mesh.Event{Op: mesh.Delete, Source: source, Config: gone})
		}
	}
	return out, keys
}

// secretReferences counts the references to Secrets and ConfigMaps.
type secretReferences struct {
	count   map[config.Key]int
	changed bool
}

// newSecretReferences returns secretReferences that count no reference.
func newSecretReferences() secretReferences { return secretReferences{count: map[config.Key]int{}} }

// replace changes the numbers of objects that refer to each Secret and ConfigMap, for one object
// that referred to was and now refers to is. Other kinds are ignored. It sets changed if one is
// referred to for the first time, or no longer.
func (s *secretReferences) replace(was, is []config.Key) {
	add := func(list []config.Key, n int) {
		for _, k := range list {
			if k.Kind != api.Secret && k.Kind != api.ConfigMap {
				continue
			}
			before := s.count[k]
			if s.count[k] += n; s.count[k] == 0 {
				delete(s.count, k)
			}
			s.changed = s.changed || before == 0 || before+n == 0
		}
	}
	add(is, 1)
	add(was, -1)
}
