package ingress

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// emitted contains an Emitter per kind of event, so that only differences are emitted.
type emitted struct {
	gateways        *emit.Emitter[name, *config.Config]   // by Ingress
	virtualServices *emit.Emitter[string, *config.Config] // by host
	problems        *emit.ProblemEmitter[string]          // by scope
}

// newEmitted returns emitters to which nothing has been emitted yet. Objects are equal if key, hash
// and origin are.
func newEmitted() emitted {
	same := func(a, b *config.Config) bool { return a.Key == b.Key && a.Hash == b.Hash && a.Origin == b.Origin }
	return emitted{
		gateways:        emit.NewEmitter[name](same),
		virtualServices: emit.NewEmitter[string](same),
		problems:        emit.NewProblemEmitter(source, func(scope string) string { return scope }),
	}
}

// flush converts the marked Ingresses, sorted by key, then the marked hosts, sorted. It appends the
// events for what changed, and clears the marks.
func (c *Converter) flush(out mesh.Batch) mesh.Batch {
	ingresses := slices.SortedFunc(maps.Keys(c.dirty), func(a, b name) int { return keyOf(a).Compare(keyOf(b)) })
	clear(c.dirty)
	for _, k := range ingresses {
		out = c.flushIngress(out, k)
	}
	hosts := slices.Sorted(maps.Keys(c.dirtyHosts))
	clear(c.dirtyHosts)
	for _, host := range hosts {
		out = c.flushHost(out, host)
	}
	return out
}

// keyOf returns the config key of an Ingress.
func keyOf(k name) config.Key {
	return config.Key{Kind: api.Ingress, Namespace: k.Namespace, Name: k.Name}
}

// flushIngress converts an Ingress again and appends to out what changed of its Gateway and
// Problems. It updates the indexes by host and service for its old and new rules, and marks their
// hosts. An Ingress that is gone or not served loses its Gateway and rules. If the conversion
// panics, only the Problem of the panic is appended.
func (c *Converter) flushIngress(out mesh.Batch, k name) mesh.Batch {
	var now *rules
	var gateway *config.Config
	var wrong []config.Problem
	object := c.ingresses[k]
	out, converted := c.guard.Try(out, registry.Convert, keyOf(k), registry.OriginOf(object), func() {
		if object != nil && c.isServed(object) {
			now = c.readRules(k, object)
			gateway, wrong = c.newGateway(now), now.problems
		}
	})
	if !converted {
		return out
	}
	if old := c.rules[k]; old != nil {
		c.updateIndexes(old, c.byHost.Remove, c.byService.Remove)
		delete(c.rules, k)
	}
	if now != nil {
		c.rules[k] = now
		c.updateIndexes(now, c.byHost.Add, c.byService.Add)
	}
	out = emitObject(out, c.emitted.gateways, k, gateway)
	return c.emitted.problems.Emit(out, keyOf(k).String(), wrong)
}

// updateIndexes calls byHost and byService, which add to or remove from an index, for each host and
// service of an Ingress. It marks the hosts.
func (c *Converter) updateIndexes(r *rules, byHost func(string, name), byService func(name, name)) {
	for host := range r.hosts {
		byHost(host, r.name)
		c.dirtyHosts[host] = struct{}{}
	}
	for service := range r.services {
		byService(service, r.name)
	}
}

// flushHost converts the rules of all Ingresses for a host, the oldest first, to a VirtualService,
// and emits what changed of it and its Problems. A host without rules loses both. If the conversion
// panics, only the Problem of the panic is emitted.
func (c *Converter) flushHost(out mesh.Batch, host string) mesh.Batch {
	var all []*rules
	for k := range c.byHost.Values(host) {
		all = append(all, c.rules[k])
	}
	slices.SortFunc(all, older)
	var object *config.Config
	var wrong []config.Problem
	// stands for all Ingresses with rules for the host
	of := config.Key{Kind: api.Ingress, Name: "host " + host}
	out, converted := c.guard.Try(
		out,
		registry.Convert,
		of,
		"",
		func() { object, wrong = c.newVirtualService(host, all) },
	)
	if !converted {
		return out
	}
	out = emitObject(out, c.emitted.virtualServices, host, object)
	return c.emitted.problems.Emit(out, "Ingress host "+host, wrong)
}

// emitObject appends the change of the object that k is converted to, if it differs from the one
// emitted last. A nil object deletes it. If its name changed, the object of the former name is
// deleted. It does nothing if the object is equal.
func emitObject[K comparable](
	out mesh.Batch,
	e *emit.Emitter[K, *config.Config],
	k K,
	object *config.Config,
) mesh.Batch {
	if object == nil {
		e.Delete(k)
	} else {
		e.Set(k, object)
	}
	for _, x := range e.Drain() {
		if x.HasOld && (!x.HasNew || x.New.Key != x.Old.Key) {
			gone := &config.Config{Meta: config.Meta{Key: x.Old.Key}}
			out = append(out, mesh.Event{Op: mesh.Delete, Source: source, Config: gone})
		}
		if x.HasNew {
			out = append(out, mesh.Event{Source: source, Config: x.New})
		}
	}
	return out
}
