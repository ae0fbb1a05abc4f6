package ingest

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Panics are confined as close to their cause as possible. Converters confine a panic to an object
// (registry.Guard), and the Builder confines it to an event (snapshot.Options.Recovery). The
// functions of this file handle converters without a guard and callbacks.

// callGuarded calls f, a callback of the Options with this name. If f panics, it logs and counts
// the panic and returns. Without Options.Recovery the panic propagates.
func (p *pipeline) callGuarded(name string, f func()) {
	// it is logged
	_ = p.Recovery.Call("ingest", func() error { f(); return nil }, "callback", name)
}

// resolvePrecedence returns the batch in which each object of several feeds is replaced by the
// version that takes precedence (precedence.resolve).
func (p *pipeline) resolvePrecedence(batch mesh.Batch) mesh.Batch {
	return p.precedence.resolve(batch, &p.resolution)
}

// passThrough returns the output of a filter or converter for a batch. If that panics, it discards
// the output and passes the events again, one at a time. An event about an object that panics again
// is dropped, and the object gets a Problem until an event about it succeeds. Other events that
// panic pass unchanged. Without Options.Recovery panics propagate.
func (p *pipeline) passThrough(c registry.Converter, batch mesh.Batch) mesh.Batch {
	guard := p.guards[c]
	if guard == nil {
		guard = &registry.Guard{Recovery: p.Recovery, Source: fmt.Sprintf("ingest %d", len(p.guards))}
		p.guards[c] = guard
	}
	var out mesh.Batch
	err := p.Recovery.Call(
		"ingest",
		func() error { out = c.Convert(batch); return nil },
		"converter",
		fmt.Sprintf("%T", c),
		"events",
		len(batch),
	)
	if err == nil {
		for i := range batch {
			if batch[i].Config != nil {
				out = guard.ClearProblem(out, registry.Convert, batch[i].Config.Key)
			}
		}
		return out
	}
	out = nil
	for i := range batch {
		e := &batch[i]
		if e.Config == nil {
			out = append(out, p.convertOne(c, *e)...)
			continue
		}
		var one mesh.Batch
		out, _ = guard.Try(
			out,
			registry.Convert,
			e.Config.Key,
			e.Config.Origin,
			func() { one = c.Convert(mesh.Batch{*e}) },
		)
		out = append(out, one...)
	}
	return out
}

// convertOne returns the output of a converter for an event that is not about an object, or the
// event itself if the converter panics. Without Options.Recovery the panic propagates.
func (p *pipeline) convertOne(c registry.Converter, e mesh.Event) (out mesh.Batch) {
	err := p.Recovery.Call(
		"ingest",
		func() error { out = c.Convert(mesh.Batch{e}); return nil },
		"converter",
		fmt.Sprintf("%T", c),
		"source",
		e.Source,
	)
	if err != nil {
		return mesh.Batch{e}
	}
	return out
}
