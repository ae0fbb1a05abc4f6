package gatewayapi

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayx "sigs.k8s.io/gateway-api/apisx/v1alpha1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// convertedBackend is what an XBackend was converted to, and the objects that it refers to.
type convertedBackend struct {
	services []*mesh.Service
	shards   []*mesh.Shard
	objects  []*config.Config
	refs     []config.Key
	status   *Status
	problems []config.Problem
}

// flushBackends converts the marked XBackends in the order of their keys (flushBackend) and clears
// the marks.
func (c *Converter) flushBackends(out mesh.Batch) mesh.Batch {
	for _, k := range sortedKeys(c.dirty.backends) {
		out = c.flushBackend(out, k)
	}
	clear(c.dirty.backends)
	return out
}

// flushBackend converts an XBackend: it emits its service, TLS settings and Problems and sets its
// status. It has a service only while a Gateway accepts a route to it. For an XBackend that does
// not exist it deletes all of these. If the conversion panics, only the Problem is emitted.
func (c *Converter) flushBackend(out mesh.Batch, k config.Key) mesh.Batch {
	object, old := c.objects.all[k], c.backends[k]
	if old == nil {
		old = &convertedBackend{}
	}
	now := &convertedBackend{}
	out, ok := c.guard.Try(out, registry.Convert, k, registry.OriginOf(object), func() {
		if object != nil {
			now = c.convertBackend(object)
		}
	})
	if !ok {
		return out
	}
	c.setReferences(k, old.refs, now.refs)
	c.secrets.replace(old.refs, now.refs)
	if c.backends[k] = now; object == nil {
		delete(c.backends, k)
	}
	c.pending.setStatus(k, now.status)
	out = registry.AppendShards(out, source, old.shards, now.shards)
	out = registry.AppendServices(out, source, old.services, now.services)
	out, keys := c.emitObjects(out, c.rules[k], now.objects)
	if c.rules[k] = keys; len(keys) == 0 {
		delete(c.rules, k)
	}
	return c.emitted.problems.Emit(out, k, now.problems)
}

// convertBackend returns what an XBackend is converted to. Only its status, references and Problems
// are set if it cannot be used, or if no Gateway accepts a route to it.
func (c *Converter) convertBackend(object *config.Config) *convertedBackend {
	resolved := c.resolveBackend(object)
	var parents []poolParent
	for _, p := range c.poolParents(object.Key) {
		if p.accepted.ok() {
			parents = append(parents, p)
		}
	}
	accepted := resolved.fault
	if accepted.reason == string(gatewayv1.RouteReasonBackendNotFound) { // The reason is that of routes.
		accepted.reason = string(gatewayv1.PolicyReasonInvalid)
	}
	now := &convertedBackend{refs: resolved.refs, status: backendStatus(object, parents, accepted)}
	switch {
	case !accepted.ok():
		now.problems = append(now.problems, newProblem(object, "", config.Error, accepted))
		return now
	case !resolved.warning.ok():
		now.problems = append(now.problems, newProblem(object, "", config.Warning, resolved.warning))
	}
	if len(parents) == 0 {
		return now
	}
	service, shard := c.backendService(object, parents)
	now.services, now.shards = []*mesh.Service{service}, []*mesh.Shard{shard}
	now.objects = c.backendRules(object, parents, resolved)
	return now
}

// backendRules returns the DestinationRules with the TLS settings of an XBackend, and the bundle of
// its CA certificates if it has several. It returns nil without TLS. With a client certificate
// there is a rule for the proxies of each parent, and a Gateway without servers that permits them
// to request the certificate.
func (c *Converter) backendRules(object *config.Config, parents []poolParent,
	resolved resolvedBackend) []*config.Config {
	if resolved.tls == nil {
		return nil
	}
	k, list := object.Key, []config.BackendTLS{*resolved.tls}
	key := config.Key{Kind: api.DestinationRule, Namespace: k.Namespace, Name: k.Name + "~" + k.Kind.Name() + "~tls"}
	spec := &networking.DestinationRule{Host: string(c.backendHost(k)), ExportTo: []string{"*"}}
	objects := []*config.Config{newObject(key, object, spec, &config.Extension{Source: k, BackendTLS: list})}
	if len(resolved.authorities) > 1 {
		if bundle := c.newBundle(bundleOf(k), object, resolved.authorities); bundle != nil {
			objects = append(objects, bundle)
		}
	}
	if resolved.certificate == "" {
		return objects
	}
	for _, p := range parents {
		g := c.gateways[p.gateway]
		if g == nil {
			continue
		}
		objects = append(objects, certifiedRule(g, key, object, spec, config.Extension{Source: k, BackendTLS: list},
			resolved.certificate))
		permit := config.Key{Kind: api.Gateway, Namespace: g.Namespace,
			Name: key.Namespace + "~" + key.Name + "~" + g.Name}
		x := &config.GatewayExtension{OwnNamespace: true, ClientCertificate: resolved.certificate}
		objects = append(objects, newObject(permit, object, &networking.Gateway{Selector: g.selector},
			&config.Extension{Source: k, Gateway: x}))
	}
	return objects
}

// maxBackendParents is the maximum number of parents in the status of an XBackend.
const maxBackendParents = 32

// backendStatus returns the status of an XBackend, with an entry for each parent, at most
// maxBackendParents. The condition Accepted of each is by the verdict accepted.
func backendStatus(object *config.Config, parents []poolParent, accepted verdict) *Status {
	group, kind := gatewayGroup, gatewayv1.Kind("Gateway")
	s := &gatewayx.BackendStatus{}
	for _, p := range parents[:min(len(parents), maxBackendParents)] {
		list := conditionList{generation: object.Generation}
		list.add("Accepted", "Accepted", "The backend is accepted", accepted)
		namespace := gatewayv1.Namespace(p.gateway.Namespace)
		s.Ancestors = append(s.Ancestors, gatewayx.BackendAncestorStatus{
			AncestorRef: gatewayv1.ParentReference{
				Group: &group, Kind: &kind, Namespace: &namespace, Name: gatewayv1.ObjectName(p.gateway.Name),
			},
			ControllerName: gatewayv1.GatewayController(p.controller), Conditions: list.list,
		})
	}
	return &Status{Generation: object.Generation, Value: s}
}
