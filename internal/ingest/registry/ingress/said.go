package ingress

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// said is what was last told, so that only news is told.
type said struct {
	gateways        map[name]*config.Config   // by Ingress
	virtualServices map[string]*config.Config // by host
	problems        map[string][]config.Problem
}

func newSaid() said {
	return said{map[name]*config.Config{}, map[string]*config.Config{}, map[string][]config.Problem{}}
}

// flush converts what is marked and appends what is news.
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

// keyOf names an Ingress.
func keyOf(k name) config.Key {
	return config.Key{Kind: api.Ingress, Namespace: k.Namespace, Name: k.Name}
}

// flushIngress reads an Ingress again, and marks the hosts that it has or had rules for.
func (c *Converter) flushIngress(out mesh.Batch, k name) mesh.Batch {
	var now *rules
	var gateway *config.Config
	var wrong []config.Problem
	object := c.ingresses[k]
	out, converted := c.guard.Try(out, registry.Convert, keyOf(k), originOf(object), func() {
		if object != nil && c.ours(object) {
			now = c.readRules(k, object)
			gateway, wrong = c.gateway(now), now.problems
		}
	})
	if !converted {
		return out
	}
	if old := c.rules[k]; old != nil {
		c.index(old, c.byHost.Remove, c.byService.Remove)
		delete(c.rules, k)
	}
	if now != nil {
		c.rules[k] = now
		c.index(now, c.byHost.Add, c.byService.Add)
	}
	out = say(out, c.said.gateways, k, gateway)
	return c.sayProblems(out, keyOf(k).String(), wrong)
}

func (c *Converter) index(r *rules, byHost func(string, name), byService func(name, name)) {
	for host := range r.hosts {
		byHost(host, r.name)
		c.dirtyHosts[host] = struct{}{}
	}
	for service := range r.services {
		byService(service, r.name)
	}
}

func (c *Converter) flushHost(out mesh.Batch, host string) mesh.Batch {
	var all []*rules
	for k := range c.byHost.Of(host) {
		all = append(all, c.rules[k])
	}
	slices.SortFunc(all, older)
	var object *config.Config
	var wrong []config.Problem
	of := config.Key{Kind: api.Ingress, Name: "host " + host} // of all Ingresses that have rules for it
	out, converted := c.guard.Try(out, registry.Convert, of, "", func() { object, wrong = c.virtualService(host, all) })
	if !converted {
		return out
	}
	out = say(out, c.said.virtualServices, host, object)
	return c.sayProblems(out, "Ingress host "+host, wrong)
}

// originOf returns where an object was read, "" if it is nil.
func originOf(object *config.Config) string {
	if object == nil {
		return ""
	}
	return object.Origin
}

// say appends what is news about the object that is made of something, of which now (nil: nothing) is what is so. Its name may be
// another than before.
func say[K comparable](out mesh.Batch, known map[K]*config.Config, of K, now *config.Config) mesh.Batch {
	before := known[of]
	if now == nil {
		delete(known, of)
	} else {
		known[of] = now
	}
	if before != nil && (now == nil || now.Key != before.Key) {
		out = append(out, mesh.Event{Op: mesh.Delete, Source: source, Config: &config.Config{Meta: config.Meta{Key: before.Key}}})
	}
	if now != nil && (before == nil || now.Key != before.Key || now.Hash != before.Hash || now.Origin != before.Origin) {
		out = append(out, mesh.Event{Source: source, Config: now})
	}
	return out
}

func (c *Converter) sayProblems(out mesh.Batch, scope string, list []config.Problem) mesh.Batch {
	if slices.Equal(c.said.problems[scope], list) {
		return out
	}
	if len(list) == 0 {
		delete(c.said.problems, scope)
	} else {
		c.said.problems[scope] = list
	}
	return append(out, mesh.Event{Source: source, Problems: &mesh.Problems{Scope: scope, List: list}})
}
