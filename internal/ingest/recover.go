package ingest

import (
	"fmt"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Panics are confined as close to their cause as the state allows: converters confine them to an object (registry.Guard), the
// Builder to an event (snapshot.Options.Recovery). What follows is for what is left: converters without a guard, and callbacks.

// call calls a callback of the Options. A panic of it is logged and counted, and the pipeline goes on.
func (p *pipeline) call(name string, f func()) {
	_ = p.Recovery.Call("ingest", func() error { f(); return nil }, "callback", name) // it is logged
}

func (p *pipeline) resolve(batch mesh.Batch) mesh.Batch {
	return p.precedence.resolve(batch, &p.resolution)
}

// through sends a batch through a filter or converter. If that panics, the events are sent one at a time, and those that panic
// are dropped: a Problem names their objects until an event about them passes. What a converter without a guard of its own had
// converted of the batch before it panicked it may hold for known, and not send again.
func (p *pipeline) through(c registry.Converter, batch mesh.Batch) mesh.Batch {
	guard := p.guards[c]
	if guard == nil {
		guard = &registry.Guard{Recovery: p.Recovery, Source: fmt.Sprintf("ingest %d", len(p.guards))}
		p.guards[c] = guard
	}
	var out mesh.Batch
	err := p.Recovery.Call("ingest", func() error { out = c.Convert(batch); return nil }, "converter", fmt.Sprintf("%T", c), "events", len(batch))
	if err == nil {
		for i := range batch {
			if batch[i].Config != nil {
				out = guard.Passed(out, registry.Convert, batch[i].Config.Key)
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
		out, _ = guard.Try(out, registry.Convert, e.Config.Key, e.Config.Origin, func() { one = c.Convert(mesh.Batch{*e}) })
		out = append(out, one...)
	}
	return out
}

// convertOne converts an event that is about no object. One that panics passes as it is.
func (p *pipeline) convertOne(c registry.Converter, e mesh.Event) (out mesh.Batch) {
	err := p.Recovery.Call("ingest", func() error { out = c.Convert(mesh.Batch{e}); return nil }, "converter", fmt.Sprintf("%T", c), "source", e.Source)
	if err != nil {
		return mesh.Batch{e}
	}
	return out
}
