package gatewayapi

import (
	"maps"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// flush converts the marked objects and appends the events of changed results. The order is:
// classes, Gateways, routes, InferencePools, XBackends, XMeshes, statuses of Gateways, which
// contain the number of attached routes, ListenerSets, policies. Each step may mark objects of
// later ones. Nothing is marked afterwards.
func (c *Converter) flush(out mesh.Batch) mesh.Batch {
	for _, class := range slices.Sorted(maps.Keys(c.dirty.classes)) {
		out = c.flushClass(out, class)
	}
	clear(c.dirty.classes)
	for _, n := range sortedNames(c.dirty.gateways) {
		out = c.flushGateway(out, n)
	}
	clear(c.dirty.gateways)
	for _, k := range sortedKeys(c.dirty.routes) {
		out = c.flushRoute(out, k)
	}
	clear(c.dirty.routes)
	out = c.flushPools(out)
	out = c.flushBackends(out)
	out = c.flushApart(out)
	for _, n := range sortedNames(c.dirty.statuses) {
		out = c.flushGatewayStatus(out, n)
	}
	clear(c.dirty.statuses)
	out = c.flushLoneSets(out)
	return c.flushPolicies(out)
}

// sortedNames returns the names in a set, sorted.
func sortedNames(set map[name]struct{}) []name {
	return slices.SortedFunc(maps.Keys(set), compareNames)
}

// flushGateway resolves a Gateway again and emits an object for each served listener and for its
// bundles of authorities. It marks the Gateway's status and its ListenerSets, and the routes of the
// Gateway and of these sets if their conversion may differ. A Gateway that does not exist, or is of
// another controller, loses its objects. If the conversion panics, only the Problem is emitted.
func (c *Converter) flushGateway(out mesh.Batch, n name) mesh.Batch {
	var now *gateway
	var objects []*config.Config
	k, old := gatewayKey(n), c.gateways[n]
	out, converted := c.guard.Try(out, registry.Convert, k, registry.OriginOf(c.objects.all[k]), func() {
		if now = c.resolveGateway(n); now != nil {
			objects = now.servedObjects(c.options)
		}
	})
	if !converted {
		return out
	}
	var before []config.Key
	if old != nil {
		before = old.outputs
	}
	alike := old.routesAlike(now)
	c.replaceGateway(n, old, now)
	if alike && now != nil {
		now.carryAttached(old)
	}
	out, outputs := c.emitObjects(out, before, objects)
	if now != nil {
		now.outputs = outputs
	}
	if !alike {
		c.markRoutesOf(k)
		if old.isDefault() || now.isDefault() {
			c.markRoutesOf(defaultParent())
		}
		for s := range c.indexes.sets.Values(n) {
			c.markRoutesOf(setKey(s))
		}
	}
	if !alike || now == nil {
		for s := range c.indexes.sets.Values(n) {
			c.dirty.lone[s] = struct{}{}
		}
	}
	if old != nil {
		for _, s := range old.sets {
			c.dirty.lone[nameOf(s.object.Key)] = struct{}{}
		}
	}
	c.dirty.statuses[n] = struct{}{}
	return out
}

// servedObjects returns the objects that a Gateway is converted to: one for each served listener,
// then its bundles of authorities by their keys.
func (g *gateway) servedObjects(o Options) []*config.Config {
	var objects []*config.Config
	for _, l := range g.listeners {
		if l.isServed() {
			objects = append(objects, g.newGateway(l, o))
		}
	}
	for _, k := range sortedKeys(g.bundles) {
		objects = append(objects, g.bundles[k])
	}
	return objects
}

// replaceGateway stores now as the Gateway n in place of old, with the references and Secrets that
// it needs. Either is nil if the Gateway does not exist.
func (c *Converter) replaceGateway(n name, old, now *gateway) {
	var was, is []config.Key
	if old != nil {
		was = old.references
	}
	if now == nil {
		delete(c.gateways, n)
	} else {
		c.gateways[n], is = now, now.references
	}
	c.setSelecting(n, now.selectsNamespaces())
	c.setReferences(gatewayKey(n), was, is)
	c.secrets.replace(was, is)
}

// markRoutesOf marks the routes that refer to a parent for conversion.
func (c *Converter) markRoutesOf(parent config.Key) {
	for r := range c.indexes.parent.Values(parent) {
		c.dirty.routes[r] = struct{}{}
	}
}

// flushRoute converts a route again, emits its objects and Problems, and sets its status. It marks
// the statuses of its Gateways, the policies of its backends, its InferencePools and its XBackends,
// old and new ones. A deleted route loses its objects and state; a key without an entry in c.routes
// is ignored. If the conversion panics, only the Problem is emitted.
func (c *Converter) flushRoute(out mesh.Batch, k config.Key) mesh.Batch {
	object, state := c.objects.all[k], c.routes[k]
	if state == nil {
		return out
	}
	now := &converted{}
	out, ok := c.guard.Try(out, registry.Convert, k, registry.OriginOf(object), func() {
		if object != nil {
			now = c.convertRoute(object)
		}
	})
	if !ok {
		return out
	}
	c.detachRoute(k, state)
	c.setReferences(k, state.refs, now.refs)
	for _, ref := range slices.Concat(state.refs, now.refs) {
		for p := range c.objects.policies.Values(ref) {
			c.dirty.policies[p] = struct{}{}
		}
		switch ref.Kind {
		case api.InferencePool:
			c.dirty.pools[ref] = struct{}{}
		case api.XBackend:
			c.dirty.backends[ref] = struct{}{}
		}
	}
	state.attachments, state.refs = now.attachments, now.refs
	c.attachRoute(k, state)
	out, state.outputs = c.emitObjects(out, state.outputs, now.objects)
	c.pending.setStatus(k, now.status)
	if object == nil {
		delete(c.routes, k)
	}
	return c.emitted.problems.Emit(out, k, now.problems)
}

// detachRoute removes a route from all listeners of the Gateways of its attachments, and marks the
// statuses of these Gateways. Attachments without a Gateway (mesh parents) have none.
func (c *Converter) detachRoute(k config.Key, state *routed) {
	for _, a := range state.attachments {
		if a.gateway == nil {
			continue
		}
		c.dirty.statuses[a.gateway.name] = struct{}{}
		if current := c.gateways[a.gateway.name]; current != nil {
			for _, l := range current.listeners {
				delete(l.attached, k)
			}
		}
	}
}

// attachRoute adds a route to the listeners of its attachments, and marks the statuses of their
// Gateways. Attachments without a Gateway (mesh parents) have none.
func (c *Converter) attachRoute(k config.Key, state *routed) {
	for _, a := range state.attachments {
		if a.gateway == nil {
			continue
		}
		for _, l := range a.listeners {
			l.attached[k] = struct{}{}
		}
		c.dirty.statuses[a.gateway.name] = struct{}{}
	}
}

// report is the status and the Problems of an object. The status is nil for an object without one.
type report struct {
	key      config.Key
	status   *Status
	problems []config.Problem
}

// flushGatewayStatus sets the statuses of a Gateway and its ListenerSets and its Deployment, and
// emits their Problems. It removes the marks of these sets in c.dirty.lone. Without a resolved
// Gateway it removes the Deployment and sets the result of unservedReport. If computing them
// panics, only the Problem of that is emitted.
func (c *Converter) flushGatewayStatus(out mesh.Batch, n name) mesh.Batch {
	k, g := gatewayKey(n), c.gateways[n]
	var reports []report
	var deployment *Deployment
	out, computed := c.guard.Try(out, registry.Report, k, registry.OriginOf(c.objects.all[k]), func() {
		if g == nil {
			reports = []report{c.unservedReport(k)}
			return
		}
		reports, deployment = c.gatewayReports(g), c.deployment(g)
	})
	if g != nil {
		for _, s := range g.sets {
			delete(c.dirty.lone, nameOf(s.object.Key))
			out = c.guard.ClearProblem(out, registry.Report, s.object.Key)
		}
	}
	if !computed {
		return out
	}
	c.pending.deployments[k] = deployment
	for _, r := range reports {
		c.pending.setStatus(r.key, r.status)
		out = c.emitted.problems.Emit(out, r.key, r.problems)
	}
	return out
}

// gatewayReports returns a report with the status and Problems of a Gateway, and then one of each
// of its ListenerSets, allowed or not.
func (c *Converter) gatewayReports(g *gateway) []report {
	k := g.object.Key
	reports := []report{{
		k, c.gatewayStatus(g), g.problems(k, g.object, g.accepted, g.deployable, g.backend, c.unusableAddress(g)),
	}}
	for _, s := range g.sets {
		reports = append(reports, report{
			s.object.Key, c.listenerSetStatus(g, s), g.problems(s.object.Key, s.object, s.accepted),
		})
	}
	return reports
}

// unservedReport returns the report of a Gateway that is not resolved: its status if its proxies
// run elsewhere (class istio-remote), and otherwise unclaimedProblems without a status.
func (c *Converter) unservedReport(k config.Key) report {
	if object := c.objects.all[k]; object != nil {
		spec := &config.Spec[*gatewayv1.Gateway](object).Spec
		if _, ours := c.classOf(string(spec.GatewayClassName)); ours {
			return report{key: k, status: remoteStatus(object.Generation, spec)}
		}
	}
	return report{key: k, problems: c.unclaimedProblems(k)}
}

// unclaimedProblems returns a Problem if the Gateway with this key exists, but its GatewayClass
// does not. It returns nil if the class exists, because then another controller is responsible.
func (c *Converter) unclaimedProblems(k config.Key) []config.Problem {
	object := c.objects.all[k]
	if object == nil {
		return nil
	}
	class := string(config.Spec[*gatewayv1.Gateway](object).Spec.GatewayClassName)
	if c.objects.all[config.Key{Kind: api.GatewayClass, Name: class}] != nil {
		return nil // The class is of another controller.
	}
	return []config.Problem{newProblem(object, "", config.Warning,
		verdict{message: "spec.gatewayClassName: GatewayClass " + class + " does not exist"})}
}

// problems returns the Problems of the Gateway or ListenerSet with key k, or nil if there are none.
// Each failed verdict, and each failure of a listener that the object contains, is an Error. Each
// ignored option of such a listener is a Warning.
func (g *gateway) problems(k config.Key, object *config.Config, verdicts ...verdict) []config.Problem {
	var list []config.Problem
	add := func(field string, v verdict) {
		if !v.ok() {
			list = append(list, newProblem(object, field, config.Error, v))
		}
	}
	for _, v := range verdicts {
		add("", v)
	}
	for _, l := range g.listeners {
		if l.parent == k {
			add(l.field, l.accepted)
			add(l.field, l.conflict)
			add(l.field, l.resolved)
			for _, v := range l.ignoredOptions() {
				list = append(list, newProblem(object, l.field, config.Warning, v))
			}
		}
	}
	return list
}
