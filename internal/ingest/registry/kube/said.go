package kube

import (
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// said is what was last told about each object, so that only news is told.
type said struct {
	services   map[name]*mesh.Service
	imports    map[name]*mesh.Service // by ServiceImport
	workloads  map[name]*mesh.Workload
	shards     map[name]*mesh.Shard // by EndpointSlice
	clusterSet map[name]*mesh.Shard // and those of the services of ServiceImports
	gateways   map[name]*mesh.GatewayObject
	problems   map[config.Key][]config.Problem
}

func newSaid() said {
	return said{
		services:   map[name]*mesh.Service{},
		imports:    map[name]*mesh.Service{},
		clusterSet: map[name]*mesh.Shard{},
		workloads:  map[name]*mesh.Workload{},
		shards:     map[name]*mesh.Shard{},
		gateways:   map[name]*mesh.GatewayObject{},
		problems:   map[config.Key][]config.Problem{},
	}
}

// swap notes that now (nil: nothing) is what is so of k, and gives what was so before.
func swap[T any](m map[name]*T, k name, now *T) (before *T) {
	before = m[k]
	if now == nil {
		delete(m, k)
	} else {
		m[k] = now
	}
	return before
}

// sayService appends what is news about the Service or ServiceImport of that name, of which now is what is so.
func (c *Converter) sayService(out mesh.Batch, known map[name]*mesh.Service, k name, now *mesh.Service) mesh.Batch {
	before := swap(known, k, now)
	switch {
	case now == nil && before == nil, now != nil && before != nil && now.Hash == before.Hash:
		return out
	case now == nil:
		gone := &mesh.Service{ServiceKey: before.ServiceKey, Provider: before.Provider, Cluster: before.Cluster, Name: before.Name, From: before.From}
		return append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Service: gone})
	default:
		return append(out, mesh.Event{Source: c.source, Service: now})
	}
}

// sayWorkload appends what is news about the Pod of that name.
func (c *Converter) sayWorkload(out mesh.Batch, k name, now *mesh.Workload) mesh.Batch {
	before := swap(c.said.workloads, k, now)
	switch {
	case now == nil && before == nil, now != nil && before != nil && now.Hash == before.Hash:
		return out
	case now == nil:
		gone := &mesh.Workload{Provider: before.Provider, Cluster: before.Cluster, Namespace: before.Namespace, Name: before.Name, From: before.From}
		return append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Workload: gone})
	default:
		return append(out, mesh.Event{Source: c.source, Workload: now})
	}
}

// sayShard appends what is news about the EndpointSlice of that name. A slice that moved to another service leaves the
// first one.
func (c *Converter) sayShard(out mesh.Batch, known map[name]*mesh.Shard, k name, now *mesh.Shard) mesh.Batch {
	before := swap(known, k, now)
	if before != nil && (now == nil || now.Service != before.Service) {
		gone := &mesh.Shard{Service: before.Service, Key: before.Key}
		out = append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Shard: gone})
	}
	if now != nil && (before == nil || now.Hash != before.Hash) {
		out = append(out, mesh.Event{Source: c.source, Shard: now})
	}
	return out
}

// sayProblems appends the problems of an object if they are not those that are known.
func (c *Converter) sayProblems(out mesh.Batch, key config.Key, list []config.Problem) mesh.Batch {
	if slices.Equal(c.said.problems[key], list) {
		return out
	}
	if len(list) == 0 {
		delete(c.said.problems, key)
	} else {
		c.said.problems[key] = list
	}
	return append(out, mesh.Event{Source: c.source, Problems: &mesh.Problems{Scope: key.String(), List: list}})
}

// originOf returns where an object was read, "" if it is nil.
func originOf(object *config.Config) string {
	if object == nil {
		return ""
	}
	return object.Origin
}

// problems collects what is wrong with one object.
type problems struct {
	key    config.Key
	origin string
	list   []config.Problem
}

func problemsOf(object *config.Config) problems {
	return problems{key: object.Key, origin: object.Origin}
}

func (p *problems) add(severity config.Severity, field, reason string) {
	p.list = append(p.list, config.Problem{Key: p.key, Field: field, Reason: reason, Severity: severity, Origin: p.origin})
}
