package ingest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/registry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Previews lets other goroutines copy the state of a running pipeline.
type Previews struct {
	requests chan chan *Preview
}

// NewPreviews returns Previews, which must be passed to the pipeline in Options.Previews.
func NewPreviews() *Previews { return &Previews{requests: make(chan chan *Preview)} }

// Preview is a copy of a pipeline at one moment, to which changes can be applied that nothing else
// observes. It must be used by one goroutine at a time.
type Preview struct {
	pipeline *pipeline
	// source is the feed of new objects: the first feed with an object.
	source string
	// aged is set if objects have a creation time (API server). A new object is then the youngest.
	aged bool
	// served is set if objects come from an API server, which completes new and changed ones.
	served bool
	// lastAddress is the last cluster IP that allocate assigned.
	lastAddress netip.Addr
	// renewed are the converters that have not seen the objects yet.
	renewed []registry.Converter
}

// ErrNotSynced is the error of Copy before all feeds are in sync.
var ErrNotSynced = errors.New("the control plane has not read all of its sources yet")

// errCopyFailed is the error of Copy if copying panicked.
var errCopyFailed = errors.New("internal error: the control plane's state could not be copied, its log has the reason")

// Copy returns a Preview of the pipeline's present state. It waits until the pipeline runs and has
// applied the current batch. It returns ErrNotSynced before all feeds are in sync, another error if
// copying panics, and the error of ctx if that ends before.
func (p *Previews) Copy(ctx context.Context) (*Preview, error) {
	reply := make(chan *Preview, 1)
	select {
	case p.requests <- reply:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case x, copied := <-reply:
		switch {
		case !copied:
			return nil, errCopyFailed
		case x == nil:
			return nil, ErrNotSynced
		}
		return x, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// previewRequests returns the channel of requests for Previews, or nil, which never delivers, if
// Options.Previews is not set.
func (p *pipeline) previewRequests() <-chan chan *Preview {
	if p.Previews == nil {
		return nil
	}
	return p.Previews.requests
}

// copyTo sends a Preview of the present state to reply, which must have room, and closes reply. If
// not all feeds are in sync it sends nil instead. It copies indexes only; everything that takes
// long is left to the receiver. If copying panics, it only closes reply; without Options.Recovery
// the panic also propagates.
func (p *pipeline) copyTo(reply chan<- *Preview) {
	defer close(reply)
	if len(p.waiting) > 0 {
		reply <- nil
		return
	}
	p.callGuarded("preview", func() {
		x := &Preview{lastAddress: firstPreviewAddress}
		o := Options{
			Feeds: p.Feeds, Builder: p.Builder.Fork(), Publish: func(*snapshot.Snapshot, snapshot.Delta) {},
			Log: slog.New(slog.DiscardHandler), Recovery: p.Recovery, Clock: p.Clock,
		}
		o.Filters = x.copyConverters(p.Filters)
		o.Converters = x.copyConverters(p.Converters)
		x.pipeline = newPipeline(o)
		x.pipeline.precedence.candidates = maps.Clone(p.precedence.candidates)
		reply <- x
	})
}

// copyConverters returns a fork of each Forker and a new converter for each Renewer, which it also
// adds to x.renewed. Other converters are left out: they hold objects back until something is
// fetched, and a preview fetches nothing.
func (x *Preview) copyConverters(list []registry.Converter) []registry.Converter {
	var out []registry.Converter
	for _, c := range list {
		switch c := c.(type) {
		case registry.Forker:
			out = append(out, c.Fork())
		case registry.Renewer:
			next := c.Renew()
			out, x.renewed = append(out, next), append(x.renewed, next)
		}
	}
	return out
}

// Object returns the object with this key from the feed that takes precedence, or nil if no feed
// has it.
func (x *Preview) Object(k config.Key) *config.Config {
	if list := x.pipeline.precedence.candidates[k]; len(list) > 0 {
		return list[0].object
	}
	return nil
}

// Snapshot returns the snapshot of the copied state, or after Apply the resulting one.
func (x *Preview) Snapshot() *snapshot.Snapshot { return x.pipeline.Builder.Current() }

// Preview returns the present snapshot and the snapshot that would follow from a change of objects,
// which is not published. problems, found by decoding the objects, are added to the second. It
// returns an error if Copy fails or an object cannot be encoded.
func (p *Previews) Preview(
	ctx context.Context, changed []*config.Config, deleted []config.Key, problems []config.Problem,
) (before, after *snapshot.Snapshot, err error) {
	x, err := p.Copy(ctx)
	if err != nil {
		return nil, nil, err
	}
	before = x.Snapshot()
	after, err = x.Apply(changed, deleted, problems)
	return before, after, err
}

// Apply applies changed and deleted objects as one change to the Preview, and returns the resulting
// snapshot, on which later calls build. A changed object keeps its age and status; a Pod without an
// address changes nothing if objects come from an API server. An object of several feeds is deleted
// from the feed of highest precedence; an unknown object is ignored. problems replace the last
// call's unless empty. If an object cannot be encoded, it returns an error and applies nothing.
func (x *Preview) Apply(changed []*config.Config, deleted []config.Key, problems []config.Problem) (*snapshot.Snapshot,
	error) {
	p := x.pipeline
	x.findSource()
	x.replay()
	var batch mesh.Batch
	for _, c := range changed {
		if x.served && hasNoEffect(c) {
			continue
		}
		c, err := x.adopt(c)
		if err != nil {
			return nil, err
		}
		batch = append(batch, mesh.Event{Op: mesh.Upsert, Source: x.feedOf(c.Key), Config: c})
	}
	for _, k := range deleted {
		if c := x.Object(k); c != nil {
			batch = append(batch, mesh.Event{Op: mesh.Delete, Source: x.feedOf(k), Config: c})
		}
	}
	if len(problems) > 0 {
		batch = append(batch, mesh.Event{Source: previewSource,
			Problems: &mesh.Problems{Scope: previewSource, List: problems}})
	}
	s, _ := p.Builder.Apply(p.convert(p.resolvePrecedence(batch))...)
	return s, nil
}

// adopt returns a copy of c with the age, status and generation of the object that it replaces. A
// new object without an age gets the present time if other objects have ages. If objects come from
// an API server, the fields that it sets are set. It returns an error if c cannot be encoded.
func (x *Preview) adopt(c *config.Config) (*config.Config, error) {
	meta, spec, known := c.Meta, c.Spec, x.Object(c.Key)
	if known != nil {
		meta.Created, meta.Status, meta.Generation = known.Created, known.Status, known.Generation
	} else if x.aged && meta.Created.IsZero() {
		meta.Created = x.pipeline.Clock.Now()
	}
	if x.served {
		spec = x.withServerFields(c, known)
	}
	return config.New(meta, spec)
}

// previewSource is the source of the Problems of submitted objects.
const previewSource = "preview"

// findSource sets x.source, for new objects, to the feed of highest precedence that has an object.
// It sets x.aged if an object has a creation time. It sets x.served if an object has one and no
// Origin, so is not from a file. Only the candidate of each object that takes precedence counts.
func (x *Preview) findSource() {
	p := x.pipeline.precedence
	for _, list := range p.candidates {
		first := list[0]
		if x.source == "" || p.rank[first.feed] < p.rank[x.source] {
			x.source = first.feed
		}
		x.aged = x.aged || !first.object.Created.IsZero()
		x.served = x.served || !first.object.Created.IsZero() && first.object.Origin == ""
	}
}

// feedOf returns the name of the feed whose object with this key takes precedence, or x.source if
// no feed has it.
func (x *Preview) feedOf(k config.Key) string {
	if list := x.pipeline.precedence.candidates[k]; len(list) > 0 {
		return list[0].feed
	}
	return x.source
}

// replay passes the settings, all objects that the filters let pass, and Synced to the converters
// in x.renewed. It discards their output, which the Builder already has. It empties x.renewed, so
// that further calls change nothing.
func (x *Preview) replay() {
	p := x.pipeline
	settings := p.Builder.Settings()
	batch := mesh.Batch{{Source: previewSource, Settings: &settings}}
	for _, k := range slices.SortedFunc(maps.Keys(p.precedence.candidates), config.Key.Compare) {
		c := p.precedence.candidates[k][0]
		batch = append(batch, mesh.Event{Op: mesh.Upsert, Source: c.feed, Config: c.object})
	}
	for _, f := range p.Filters { // a filter lets the objects pass that it let pass before
		batch = p.passThrough(f, batch)
	}
	batch = append(batch, mesh.Event{Op: mesh.Synced, Source: previewSource})
	for _, c := range x.renewed {
		if !slices.Contains(p.Filters, c) {
			p.passThrough(c, batch)
		}
	}
	x.renewed = nil
}
