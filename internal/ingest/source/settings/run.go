package settings

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// run is the state of one Run. It belongs to the goroutine of loop.
type run struct {
	*Source
	origins []origin
	// texts has the last valid text of each origin, nil if there was none.
	texts [][]byte
	// bad contains the origins with an invalid text and no valid one before it.
	bad map[int]bool

	out   chan<- mesh.Batch
	reads chan reading
	// pending contains the events to send.
	pending mesh.Batch
	// listed is set after the ConfigMaps were listed, synced after Synced was sent.
	listed, synced bool
}

// reading is the current text of an origin.
type reading struct {
	origin int
	text   []byte
	there  bool
}

// sendReading passes a reading to applyAndSend, unless ctx ends before.
func (r *run) sendReading(ctx context.Context, x reading) {
	select {
	case r.reads <- x:
	case <-ctx.Done():
	}
}

// applyAndSend applies texts and ConfigMaps and sends the resulting events, until ctx ends. It adds
// Synced once the ConfigMaps are listed and no origin has only an invalid text. Events wait while
// the receiver is busy.
func (r *run) applyAndSend(ctx context.Context, objects <-chan mesh.Batch) {
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
			r.applyText(x)
		case b := <-objects:
			r.applyConfigMaps(b)
		}
	}
}

// applyConfigMaps applies events about ConfigMaps: the texts that origins read from them, or their
// absence. Problems are passed on; other ConfigMaps are ignored. A ConfigMap without the text is
// treated as absent.
func (r *run) applyConfigMaps(b mesh.Batch) {
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
					r.applyText(reading{origin: i})
					continue
				}
				text, there := config.Spec[*corev1.ConfigMap](e.Config).Data[string(o.what)]
				r.applyText(reading{i, []byte(text), there})
			}
		}
	}
}

// applyText applies a text. A valid one changes the settings, unless it is unchanged, and its
// warnings are Problems. An invalid or missing one is a Problem, and the last valid one stays in
// use. An invalid first text delays Synced until it is valid; a text that never existed is no
// Problem.
func (r *run) applyText(x reading) {
	o := r.origins[x.origin]
	before := r.texts[x.origin]
	if !x.there {
		if before != nil {
			r.setProblem(x.origin, config.Warning, "was removed; its last content stays in use")
		}
		return
	}
	if err := o.what.checkText(x.text); err != nil {
		reason := err.Error()
		if before == nil {
			if r.bad == nil {
				r.bad = map[int]bool{}
			}
			r.bad[x.origin] = true
		} else {
			reason += "; its previous version stays in use"
		}
		r.setProblem(x.origin, config.Error, reason)
		return
	}
	delete(r.bad, x.origin)
	r.setProblems(x.origin, o.what.textWarnings(x.text))
	if before != nil && bytes.Equal(before, x.text) {
		return
	}
	r.texts[x.origin] = append([]byte{}, x.text...) // not nil, even if empty
	var texts [][]byte
	for i, other := range r.origins {
		if other.what == o.what && r.texts[i] != nil {
			texts = append(texts, r.texts[i])
		}
	}
	if s, err := o.what.parseTexts(texts...); err == nil { // each of them is valid
		r.pending = append(r.pending, mesh.Event{Source: r.Name(), Settings: s})
	}
}

// setProblem replaces the Problems of an origin, by its index, with one.
func (r *run) setProblem(of int, severity config.Severity, reason string) {
	r.setProblems(of, []config.Problem{{Code: code.InvalidMeshSetting, Reason: reason, Severity: severity}})
}

// setProblems replaces the Problems of an origin, by its index, by an event in r.pending. It sets
// the Origin of each in list. An empty list clears them.
func (r *run) setProblems(of int, list []config.Problem) {
	name := r.origins[of].displayName(r.ConfigMaps.Namespace)
	for i := range list {
		list[i].Origin = name
	}
	r.pending = append(r.pending, mesh.Event{Source: r.Name(), Problems: &mesh.Problems{Scope: name, List: list}})
}
