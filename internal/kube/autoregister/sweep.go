package autoregister

import (
	"context"
	"errors"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// sweepGraces is how often the leader looks through all entries, in grace periods.
const sweepGraces = 3

// Sweep finds, until the context ends, what replicas left behind that are gone, and takes it away after a grace period. It is for
// the leader. alive says whether a replica is there; nil, or an error, is not known.
func (r *Registrar) Sweep(ctx context.Context, alive func(ctx context.Context, instance string) (bool, error)) {
	missing := map[string]time.Time{} // replicas, since when
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-r.after(sweepGraces * r.grace):
		}
		known := map[string]bool{}
		for _, c := range r.entries() {
			if !kept(c) {
				continue
			}
			controller := c.Annotations[controllerAnnotation]
			there, seen := known[controller]
			if !seen {
				there = r.there(ctx, controller, alive)
				known[controller] = there
			}
			switch _, noticed := missing[controller]; {
			case there:
				delete(missing, controller)
			case !noticed:
				missing[controller] = r.now()
			}
			since, gone := missing[controller]
			if err := r.sweep(ctx, c, gone && r.now().Sub(since) >= r.grace); err != nil && ctx.Err() == nil && !errors.Is(err, ErrConflict) {
				r.metrics.Error()
				r.log.Warn("a WorkloadEntry that nobody holds stays", "namespace", c.Namespace, "name", c.Name, "error", err)
			}
		}
	}
}

// kept says whether an entry is one that is kept for its workload, or whose health is.
func kept(c *config.Config) bool {
	return c.Annotations[controllerAnnotation] != ""
}

func (r *Registrar) there(ctx context.Context, instance string, alive func(context.Context, string) (bool, error)) bool {
	if instance == r.instance || alive == nil {
		return true
	}
	there, err := alive(ctx, instance)
	return there || err != nil
}

// sweep sees to one entry. abandoned says that its replica is gone.
func (r *Registrar) sweep(ctx context.Context, c *config.Config, abandoned bool) error {
	left := c.Annotations[disconnectedAnnotation] != ""
	if !left && !abandoned {
		return nil
	}
	e, err := r.store.Get(ctx, c.Namespace, c.Name)
	if err != nil || e == nil || e.Annotations[controllerAnnotation] != c.Annotations[controllerAnnotation] {
		return err
	}
	switch at := e.at(disconnectedAnnotation); {
	case e.Annotations[disconnectedAnnotation] == "" && abandoned:
		return r.store.Annotate(ctx, e, disconnected(r.now())) // from now on it has a grace period
	case e.Annotations[disconnectedAnnotation] == "" || r.now().Sub(at) < 2*r.grace: // its replica is to do it
		return nil
	}
	return r.cleanUp(ctx, e)
}

// resume sees to what this replica left when it was last stopped, under the same name: who has not come back by now has left.
func (r *Registrar) resume(ctx context.Context, began time.Time) {
	select {
	case <-ctx.Done():
		return
	case <-r.after(r.grace):
	}
	for _, c := range r.entries() {
		r.mu.Lock()
		here := r.workloads[entryKey{c.Namespace, c.Name}] != nil
		r.mu.Unlock()
		if here || !kept(c) || c.Annotations[controllerAnnotation] != r.instance || c.Annotations[disconnectedAnnotation] != "" {
			continue
		}
		e, err := r.store.Get(ctx, c.Namespace, c.Name)
		if err == nil && e != nil && e.Annotations[controllerAnnotation] == r.instance && e.at(connectedAnnotation).Before(began) {
			err = r.store.Annotate(ctx, e, disconnected(r.now()))
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrConflict) {
			r.log.Warn("a WorkloadEntry from before the start is left to others", "namespace", c.Namespace, "name", c.Name, "error", err)
		}
	}
}
