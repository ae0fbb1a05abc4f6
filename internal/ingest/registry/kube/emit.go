package kube

import (
	"github.com/meshpilot/meshpilot/internal/ingest/emit"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// emitted contains an Emitter per kind of event, so that only differences are emitted.
type emitted struct {
	services  *emit.Emitter[name, *mesh.Service]
	imports   *emit.Emitter[name, *mesh.Service] // by ServiceImport
	workloads *emit.Emitter[name, *mesh.Workload]
	shards    *emit.Emitter[name, *mesh.Shard] // by EndpointSlice
	// by EndpointSlice, for services of ServiceImports
	clusterSet *emit.Emitter[name, *mesh.Shard]
	gateways   *emit.Emitter[name, *mesh.GatewayObject]
	problems   *emit.ProblemEmitter[config.Key]
}

// newEmitted returns emitters to which nothing has been emitted yet. Their events have the source.
func newEmitted(source string) emitted {
	sameService := func(a, b *mesh.Service) bool { return a.Hash == b.Hash }
	sameShard := func(a, b *mesh.Shard) bool { return a.Service == b.Service && a.Hash == b.Hash }
	return emitted{
		services:   emit.NewEmitter[name](sameService),
		imports:    emit.NewEmitter[name](sameService),
		workloads:  emit.NewEmitter[name](func(a, b *mesh.Workload) bool { return a.Hash == b.Hash }),
		shards:     emit.NewEmitter[name](sameShard),
		clusterSet: emit.NewEmitter[name](sameShard),
		gateways:   emit.NewEmitter[name]((*mesh.GatewayObject).Equal),
		problems:   emit.NewProblemEmitter(source, config.Key.String),
	}
}

// setOrDelete sets the value of k, or deletes it if v is nil, and returns the resulting changes.
func setOrDelete[V any](e *emit.Emitter[name, *V], k name, v *V) []emit.Change[name, *V] {
	if v == nil {
		e.Delete(k)
	} else {
		e.Set(k, v)
	}
	return e.Drain()
}

// emitService appends the change of the service that a Service or ServiceImport is converted to, if
// it differs from the one emitted last. A nil s deletes it.
func (c *Converter) emitService(
	out mesh.Batch,
	e *emit.Emitter[name, *mesh.Service],
	k name,
	s *mesh.Service,
) mesh.Batch {
	for _, x := range setOrDelete(e, k, s) {
		if x.HasNew {
			out = append(out, mesh.Event{Source: c.source, Service: x.New})
			continue
		}
		gone := &mesh.Service{
			ServiceKey: x.Old.ServiceKey,
			Provider:   x.Old.Provider,
			Cluster:    x.Old.Cluster,
			Name:       x.Old.Name,
			From:       x.Old.From,
		}
		out = append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Service: gone})
	}
	return out
}

// emitWorkload appends the change of a pod's workload, if it differs from the one emitted last. A
// nil w deletes it.
func (c *Converter) emitWorkload(out mesh.Batch, k name, w *mesh.Workload) mesh.Batch {
	for _, x := range setOrDelete(c.emitted.workloads, k, w) {
		if x.HasNew {
			out = append(out, mesh.Event{Source: c.source, Workload: x.New})
			continue
		}
		gone := &mesh.Workload{
			Provider:  x.Old.Provider,
			Cluster:   x.Old.Cluster,
			Namespace: x.Old.Namespace,
			Name:      x.Old.Name,
			From:      x.Old.From,
		}
		out = append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Workload: gone})
	}
	return out
}

// emitShard appends the change of an EndpointSlice's shard, if it differs from the one emitted
// last. If the slice moved to another service, it also deletes the shard of the former service. A
// nil s deletes it.
func (c *Converter) emitShard(
	out mesh.Batch,
	e *emit.Emitter[name, *mesh.Shard],
	k name,
	s *mesh.Shard,
) mesh.Batch {
	for _, x := range setOrDelete(e, k, s) {
		if x.HasOld && (!x.HasNew || x.New.Service != x.Old.Service) {
			gone := &mesh.Shard{Service: x.Old.Service, Key: x.Old.Key}
			out = append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Shard: gone})
		}
		if x.HasNew {
			out = append(out, mesh.Event{Source: c.source, Shard: x.New})
		}
	}
	return out
}

// emitGateways appends the change of the network gateways that a Gateway defines, if they differ
// from those emitted last. A nil g deletes them.
func (c *Converter) emitGateways(out mesh.Batch, k name, g *mesh.GatewayObject) mesh.Batch {
	for _, x := range setOrDelete(c.emitted.gateways, k, g) {
		if x.HasNew {
			out = append(out, mesh.Event{Source: c.source, Gateways: x.New})
			continue
		}
		gone := &mesh.GatewayObject{Cluster: x.Old.Cluster, From: x.Old.From}
		out = append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Gateways: gone})
	}
	return out
}

// problems collects the Problems of one object.
type problems struct {
	key    config.Key
	origin string
	list   []config.Problem
}

// problemsOf returns an empty list of Problems of an object.
func problemsOf(object *config.Config) problems {
	return problems{key: object.Key, origin: object.Origin}
}

// add adds a Problem about a field of the object.
func (p *problems) add(severity config.Severity, field, reason string) {
	p.list = append(
		p.list,
		config.Problem{Key: p.key, Field: field, Reason: reason, Severity: severity, Origin: p.origin},
	)
}
