package autoregister

import (
	"context"
	"errors"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
)

// cleanUpInterval is the interval of the leader's cleanup, in grace periods.
const cleanUpInterval = 3

// CleanUpAbandoned marks entries as disconnected whose replica has been missing for a grace period,
// and removes entries that have been disconnected for two, until ctx ends. Only the leader may run
// it. alive reports whether a replica exists; if alive is nil or returns an error, the replica is
// assumed to exist. Failures other than conflicts are counted and logged, and retried at the next
// interval.
func (r *Registrar) CleanUpAbandoned(
	ctx context.Context,
	alive func(ctx context.Context, instance string) (bool, error),
) {
	missing := map[string]time.Time{} // missing replicas, by the time when they were noticed
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-r.clock.After(cleanUpInterval * r.grace):
		}
		known := map[string]bool{}
		for _, c := range r.entries() {
			if !isManaged(c) {
				continue
			}
			controller := c.Annotations[controllerAnnotation]
			there, seen := known[controller]
			if !seen {
				there = r.isReplicaAlive(ctx, controller, alive)
				known[controller] = there
			}
			switch _, noticed := missing[controller]; {
			case there:
				delete(missing, controller)
			case !noticed:
				missing[controller] = r.clock.Now()
			}
			since, gone := missing[controller]
			if err := r.cleanUpEntry(ctx, c, gone && r.clock.Now().Sub(since) >= r.grace); err != nil &&
				ctx.Err() == nil &&
				!errors.Is(err, ErrConflict) {
				r.metrics.EntryError()
				r.log.Warn(
					"removing an abandoned WorkloadEntry failed, retrying",
					"namespace", c.Namespace,
					"name", c.Name,
					"error", err,
				)
			}
		}
	}
}

// isManaged reports whether some replica manages the entry or its health condition.
func isManaged(c *config.Config) bool {
	return c.Annotations[controllerAnnotation] != ""
}

// isReplicaAlive reports whether a replica exists or its existence is unknown. This replica always
// exists. Without a function alive, all exist.
func (r *Registrar) isReplicaAlive(
	ctx context.Context,
	instance string,
	alive func(context.Context, string) (bool, error),
) bool {
	if instance == r.instance || alive == nil {
		return true
	}
	there, err := alive(ctx, instance)
	return there || err != nil
}

// cleanUpEntry marks an entry whose replica is gone (abandoned) as disconnected, which starts its
// grace period. An entry that has been disconnected for two grace periods is removed, or loses its
// health condition if a user created it (cleanUp). Its own replica does this after one. Otherwise
// cleanUpEntry does nothing. It returns nil if the entry is gone or another replica has it now, and
// otherwise the error of the store.
func (r *Registrar) cleanUpEntry(ctx context.Context, c *config.Config, abandoned bool) error {
	left := c.Annotations[disconnectedAnnotation] != ""
	if !left && !abandoned {
		return nil
	}
	e, err := r.store.Get(ctx, c.Namespace, c.Name)
	if err != nil || e == nil || e.Annotations[controllerAnnotation] != c.Annotations[controllerAnnotation] {
		return err
	}
	switch at := e.annotationTime(disconnectedAnnotation); {
	case e.Annotations[disconnectedAnnotation] == "" && abandoned:
		return r.store.Annotate(ctx, e, disconnectedAnnotations(r.clock.Now())) // starts the grace period
	// its own replica removes it
	case e.Annotations[disconnectedAnnotation] == "" || r.clock.Now().Sub(at) < 2*r.grace:
		return nil
	}
	return r.cleanUp(ctx, e)
}

// markUnreturned waits for a grace period, or returns when ctx ends. Then it marks entries as
// disconnected that this replica held before began, when it restarted, and whose workloads have not
// reconnected. Entries that are marked already are skipped. Errors other than conflicts are logged;
// the leader then removes the entries.
func (r *Registrar) markUnreturned(ctx context.Context, began time.Time) {
	select {
	case <-ctx.Done():
		return
	case <-r.clock.After(r.grace):
	}
	for _, c := range r.entries() {
		r.mu.Lock()
		here := r.workloads[entryKey{c.Namespace, c.Name}] != nil
		r.mu.Unlock()
		if here || !isManaged(c) || c.Annotations[controllerAnnotation] != r.instance ||
			c.Annotations[disconnectedAnnotation] != "" {
			continue
		}
		e, err := r.store.Get(ctx, c.Namespace, c.Name)
		if err == nil && e != nil && e.Annotations[controllerAnnotation] == r.instance &&
			e.annotationTime(connectedAnnotation).Before(began) {
			err = r.store.Annotate(ctx, e, disconnectedAnnotations(r.clock.Now()))
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrConflict) {
			r.log.Warn(
				"marking a WorkloadEntry of an earlier run as disconnected failed; the leader will remove it",
				"namespace", c.Namespace,
				"name", c.Name,
				"error", err,
			)
		}
	}
}
