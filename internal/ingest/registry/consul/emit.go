package consul

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// appendDifferences appends the events for the difference between two conversions of an object, for
// shards, services and Problems, in that order.
func (c *Converter) appendDifferences(out mesh.Batch, key config.Key, old, now *converted) mesh.Batch {
	out = registry.AppendShards(out, c.source, old.shards, now.shards)
	out = registry.AppendServices(out, c.source, old.services, now.services)
	return registry.AppendProblems(out, c.source, key.String(), old.problems, now.problems)
}
