package jwks

import (
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Hold keeps new rules, and new versions of rules, back until it is known of all keys that they ask for what they are, or what is wrong.
// Else proxies would refuse good tokens for as long as the first fetch takes. Something is known of each place after a few seconds,
// so nothing is held for longer; what was there before stays meanwhile. It goes with one goroutine, that of the pipeline.
type Hold struct {
	places func(*config.Config) map[mesh.KeySource]time.Duration
	want   func(map[mesh.KeySource]time.Duration)
	open   bool
	known  map[mesh.KeySource]bool
	held   map[config.Key]mesh.Event
}

// NewHold makes a Hold that holds nothing before Close. Places gives where an object asks for keys, nil if it is of another kind; want
// is told what those that are held ask for, each time that changes.
func NewHold(places func(*config.Config) map[mesh.KeySource]time.Duration, want func(map[mesh.KeySource]time.Duration)) *Hold {
	return &Hold{places: places, want: want, open: true, known: map[mesh.KeySource]bool{}, held: map[config.Key]mesh.Event{}}
}

// Close has rules held from now on. At the start they are not: proxies of before know them, and must not be told that they are gone.
func (h *Hold) Close() { h.open = false }

// Convert takes rules out of the batch that are to be held, and puts those in that are not any more.
func (h *Hold) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	changed := false
	for _, e := range batch {
		switch {
		case e.KeySet != nil && e.Op == mesh.Delete:
			delete(h.known, e.KeySet.Source)
		case e.KeySet != nil:
			h.known[e.KeySet.Source] = true
		case e.Config != nil:
			_, was := h.held[e.Config.Key]
			delete(h.held, e.Config.Key) // this one is newer
			changed = changed || was
			if e.Op == mesh.Upsert && !h.open && !h.ready(e.Config) {
				h.held[e.Config.Key], changed = e, true
				continue
			}
		}
		out = append(out, e)
	}
	for _, k := range slices.SortedFunc(maps.Keys(h.held), config.Key.Compare) {
		if h.ready(h.held[k].Config) {
			out = append(out, h.held[k])
			delete(h.held, k)
			changed = true
		}
	}
	if changed {
		h.want(h.wants())
	}
	return out
}

// ready says that something is known of all keys that an object asks for.
func (h *Hold) ready(c *config.Config) bool {
	for place := range h.places(c) {
		if !h.known[place] {
			return false
		}
	}
	return true
}

func (h *Hold) wants() map[mesh.KeySource]time.Duration {
	wants := map[mesh.KeySource]time.Duration{}
	for _, e := range h.held {
		for place, timeout := range h.places(e.Config) {
			wants[place] = max(wants[place], timeout)
		}
	}
	return wants
}
