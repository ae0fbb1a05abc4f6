package jwks

import (
	"maps"
	"slices"
	"time"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// KeyBarrier holds back new rules, and new versions of rules, until each of their key sources has
// reported keys or an error. Without it, proxies would reject valid tokens until the first fetch
// ends. Sources report within a few seconds, which bounds the delay; the previous version of a rule
// stays in use. It is not safe for concurrent use: the pipeline's goroutine calls it.
type KeyBarrier struct {
	sourcesOf func(*config.Config) map[mesh.KeySource]time.Duration
	onWanted  func(map[mesh.KeySource]time.Duration)
	passAll   bool
	reported  map[mesh.KeySource]bool
	held      map[config.Key]mesh.Event
}

// NewKeyBarrier returns a KeyBarrier that passes all rules until StartHolding. sourcesOf returns
// the key sources of an object with their fetch timeouts, or nil for other kinds. onWanted is
// called with the sources of all held rules whenever these change.
func NewKeyBarrier(
	sourcesOf func(*config.Config) map[mesh.KeySource]time.Duration,
	onWanted func(map[mesh.KeySource]time.Duration),
) *KeyBarrier {
	return &KeyBarrier{
		sourcesOf: sourcesOf,
		onWanted:  onWanted,
		passAll:   true,
		reported:  map[mesh.KeySource]bool{},
		held:      map[config.Key]mesh.Event{},
	}
}

// StartHolding makes Convert hold rules from now on. During the initial sync all rules pass:
// connected proxies have them already and must not lose them.
func (h *KeyBarrier) StartHolding() { h.passAll = false }

// Convert returns the batch without the rules that must wait, followed by the held rules that are
// ready now. A newer version or a deletion replaces a held rule.
func (h *KeyBarrier) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	changed := false
	for _, e := range batch {
		switch {
		case e.KeySet != nil && e.Op == mesh.Delete:
			delete(h.reported, e.KeySet.Source)
		case e.KeySet != nil:
			h.reported[e.KeySet.Source] = true
		case e.Config != nil:
			_, was := h.held[e.Config.Key]
			delete(h.held, e.Config.Key) // the event replaces it
			changed = changed || was
			if e.Op == mesh.Upsert && !h.passAll && !h.isReady(e.Config) {
				h.held[e.Config.Key], changed = e, true
				continue
			}
		}
		out = append(out, e)
	}
	for _, k := range slices.SortedFunc(maps.Keys(h.held), config.Key.Compare) {
		if h.isReady(h.held[k].Config) {
			out = append(out, h.held[k])
			delete(h.held, k)
			changed = true
		}
	}
	if changed {
		h.onWanted(h.wantedSources())
	}
	return out
}

// isReady reports whether all key sources of an object have reported.
func (h *KeyBarrier) isReady(c *config.Config) bool {
	for source := range h.sourcesOf(c) {
		if !h.reported[source] {
			return false
		}
	}
	return true
}

// wantedSources returns the key sources of all held rules, each with its longest timeout.
func (h *KeyBarrier) wantedSources() map[mesh.KeySource]time.Duration {
	wants := map[mesh.KeySource]time.Duration{}
	for _, e := range h.held {
		for source, timeout := range h.sourcesOf(e.Config) {
			wants[source] = max(wants[source], timeout)
		}
	}
	return wants
}
