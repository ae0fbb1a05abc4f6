package settings

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// run is one Run: its loop owns all of it.
type run struct {
	*Source
	origins []origin
	// texts is the last good one of each origin, nil if it never had one.
	texts [][]byte
	// bad says which origins have a text now that is not good, and no good one before it.
	bad map[int]bool

	out   chan<- mesh.Batch
	reads chan reading
	// pending is what is to be sent.
	pending mesh.Batch
	// listed says that the ConfigMaps were listed, synced that Synced was sent.
	listed, synced bool
}

// reading is the text of an origin.
type reading struct {
	origin int
	text   []byte
	there  bool
}

// give hands a reading to the loop.
func (r *run) give(ctx context.Context, x reading) {
	select {
	case r.reads <- x:
	case <-ctx.Done():
	}
}

func (r *run) loop(ctx context.Context, objects <-chan mesh.Batch) {
	for {
		if !r.synced && r.listed && len(r.bad) == 0 {
			r.synced = true
			r.pending = append(r.pending, mesh.Event{Op: mesh.Synced, Source: r.Name()})
		}
		to := r.out
		if len(r.pending) == 0 {
			to = nil
		}
		select {
		case <-ctx.Done():
			return
		case to <- r.pending:
			r.pending = nil
		case x := <-r.reads:
			r.take(x)
		case b := <-objects:
			r.objects(b)
		}
	}
}

// objects takes up what is said of ConfigMaps.
func (r *run) objects(b mesh.Batch) {
	for _, e := range b {
		switch {
		case e.Op == mesh.Synced:
			r.listed = true
		case e.Problems != nil:
			r.pending = append(r.pending, e)
		case e.Config != nil:
			for i, o := range r.origins {
				if o.configMap == "" || o.configMap != e.Config.Name {
					continue
				}
				if e.Op == mesh.Delete {
					r.take(reading{origin: i})
					continue
				}
				text, there := config.Spec[*corev1.ConfigMap](e.Config).Data[string(o.what)]
				r.take(reading{i, []byte(text), there})
			}
		}
	}
}

// take takes up a text: if it is good, the settings are others; if it is not, or is gone, that is a Problem.
func (r *run) take(x reading) {
	o := r.origins[x.origin]
	before := r.texts[x.origin]
	if !x.there {
		if before != nil {
			r.problem(x.origin, config.Warning, "is gone; what it said stays in use")
		}
		return
	}
	if err := o.what.check(x.text); err != nil {
		reason := err.Error()
		if before == nil {
			if r.bad == nil {
				r.bad = map[int]bool{}
			}
			r.bad[x.origin] = true
		} else {
			reason += "; what it said before stays in use"
		}
		r.problem(x.origin, config.Error, reason)
		return
	}
	delete(r.bad, x.origin)
	r.problems(x.origin, o.what.warnings(x.text))
	if before != nil && bytes.Equal(before, x.text) {
		return
	}
	r.texts[x.origin] = append([]byte{}, x.text...) // not nil, however empty
	var texts [][]byte
	for i, other := range r.origins {
		if other.what == o.what && r.texts[i] != nil {
			texts = append(texts, r.texts[i])
		}
	}
	if s, err := o.what.settings(texts...); err == nil { // each of them was read before
		r.pending = append(r.pending, mesh.Event{Source: r.Name(), Settings: s})
	}
}

// problem replaces the Problems of an origin by one.
func (r *run) problem(of int, severity config.Severity, reason string) {
	r.problems(of, []config.Problem{{Reason: reason, Severity: severity}})
}

// problems replaces the Problems of an origin.
func (r *run) problems(of int, list []config.Problem) {
	name := r.origins[of].name(r.ConfigMaps.Namespace)
	for i := range list {
		list[i].Origin = name
	}
	r.pending = append(r.pending, mesh.Event{Source: r.Name(), Problems: &mesh.Problems{Scope: name, List: list}})
}
