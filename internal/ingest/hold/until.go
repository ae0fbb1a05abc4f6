// Package hold delays events about objects until something that the objects need is known, for
// example the Secret that a plugin names. Without the delay, proxies would briefly be configured as
// if it did not exist.
//
// Input and output are events of the ingest pipeline. A converter of the pipeline passes each event
// about an object to [Until.Hold], and calls [Until.Release] at the end of each batch.
//
// Invariants: a held event is replaced by any later event of the same object, so that versions of an
// object never pass each other. The previous version of a held object stays in use.
package hold

import (
	"iter"
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Until holds new objects, and new versions of objects, until they are ready. It is not safe for
// concurrent use: the pipeline's goroutine calls it.
type Until struct {
	isReady func(*config.Config) bool
	holding bool
	held    map[config.Key]mesh.Event
}

// NewUntil returns an Until that holds nothing before Start. isReady reports whether everything that
// an object needs is known.
func NewUntil(isReady func(*config.Config) bool) *Until {
	return &Until{isReady: isReady, held: map[config.Key]mesh.Event{}}
}

// Start makes Hold hold objects from now on. Before that all objects pass, because the first
// snapshot must be complete.
func (u *Until) Start() { u.holding = true }

// Hold stores an event and returns true if its object must wait. Deletions and objects that are
// ready need not wait. In any case, a held event of the same object is dropped. e.Config must not be
// nil.
func (u *Until) Hold(e mesh.Event) bool {
	delete(u.held, e.Config.Key)
	if e.Op != mesh.Upsert || !u.holding || u.isReady(e.Config) {
		return false
	}
	u.held[e.Config.Key] = e
	return true
}

// Release appends the held events whose objects are ready to batch, sorted by key, and no longer
// holds them.
func (u *Until) Release(batch mesh.Batch) mesh.Batch {
	for _, k := range slices.SortedFunc(maps.Keys(u.held), config.Key.Compare) {
		if e := u.held[k]; u.isReady(e.Config) {
			batch = append(batch, e)
			delete(u.held, k)
		}
	}
	return batch
}

// Objects iterates over the held objects, in no order.
func (u *Until) Objects() iter.Seq[*config.Config] {
	return func(yield func(*config.Config) bool) {
		for _, e := range u.held {
			if !yield(e.Config) {
				return
			}
		}
	}
}
