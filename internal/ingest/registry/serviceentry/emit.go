package serviceentry

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// emitDifferences appends the events for the difference between two conversions of an object, for
// shards, services, the workload and Problems, in that order. A nil workload of now deletes that of
// old.
func (c *Converter) emitDifferences(out mesh.Batch, key config.Key, old, now *converted) mesh.Batch {
	out = registry.AppendShards(out, c.source, old.shards, now.shards)
	out = registry.AppendServices(out, c.source, old.services, now.services)
	switch was, is := old.workload, now.workload; {
	case is != nil && (was == nil || was.Hash != is.Hash):
		out = append(out, mesh.Event{Op: mesh.Upsert, Source: c.source, Workload: is})
	case is == nil && was != nil:
		out = append(out, mesh.Event{Op: mesh.Delete, Source: c.source, Workload: &mesh.Workload{
			Provider:  was.Provider,
			Cluster:   was.Cluster,
			Namespace: was.Namespace,
			Name:      was.Name,
			From:      was.From,
		}})
	}
	return registry.AppendProblems(out, c.source, key.String(), old.problems, now.problems)
}
