// Package hold delays events about objects until something that the objects need is known, for
// example the Secret that a plugin names. Without the delay, proxies would briefly be configured as
// if it did not exist.
//
// Input and output are events of the ingest pipeline. A converter of the pipeline passes each event
// about an object to [Until.Hold], and calls [Until.Release] at the end of each batch.
//
// Invariants: a held event is replaced by any later event of the same object, so that versions of
// an object never pass each other. The previous version of a held object stays in use.
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

// NewUntil returns an Until that holds nothing before Start. isReady must report whether everything
// that an object needs is known.
func NewUntil(isReady func(*config.Config) bool) *Until {
	return &Until{isReady: isReady, held: map[config.Key]mesh.Event{}}
}

// Start makes Hold hold objects from now on. Before that all objects pass, because the first
// snapshot must be complete.
func (u *Until) Start() { u.holding = true }

// Hold reports whether the object of an event must wait, and stores the event if so, in place of an
// earlier one of the same object. Deletions, objects that are ready, and all objects before Start
// need not wait; a held event of such an object is dropped. e.Config must not be nil.
func (u *Until) Hold(e mesh.Event) bool {
	delete(u.held, e.Config.Key)
	if e.Op != mesh.Upsert || !u.holding || u.isReady(e.Config) {
		return false
	}
	u.held[e.Config.Key] = e
	return true
}

// Release returns batch with the held events appended whose objects are now ready, sorted by key.
// It no longer holds these.
func (u *Until) Release(batch mesh.Batch) mesh.Batch {
	for _, k := range slices.SortedFunc(maps.Keys(u.held), config.Key.Compare) {
		if e := u.held[k]; u.isReady(e.Config) {
			batch = append(batch, e)
			delete(u.held, k)
		}
	}
	return batch
}

// Objects returns an iterator over the held objects, in no particular order.
func (u *Until) Objects() iter.Seq[*config.Config] {
	return func(yield func(*config.Config) bool) {
		for _, e := range u.held {
			if !yield(e.Config) {
				return
			}
		}
	}
}
