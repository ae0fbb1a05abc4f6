package jwks

import (
	"maps"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/hold"
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
	reported  map[mesh.KeySource]bool
	rules     *hold.Until
}

// NewKeyBarrier returns a KeyBarrier that passes all rules until StartHolding. sourcesOf must
// return the key sources of an object with their fetch timeouts, or nil if it has none. onWanted is
// called with the sources of all held rules whenever these change.
func NewKeyBarrier(
	sourcesOf func(*config.Config) map[mesh.KeySource]time.Duration,
	onWanted func(map[mesh.KeySource]time.Duration),
) *KeyBarrier {
	h := &KeyBarrier{sourcesOf: sourcesOf, onWanted: onWanted, reported: map[mesh.KeySource]bool{}}
	h.rules = hold.NewUntil(h.isReady)
	return h
}

// StartHolding makes Convert hold rules from now on. During the initial sync all rules pass:
// connected proxies have them already and must not lose them.
func (h *KeyBarrier) StartHolding() { h.rules.Start() }

// Convert returns the batch without the rules that must wait for keys, followed by the held rules
// that are ready now. A newer version or a deletion replaces a held rule. It records which sources
// have reported keys or a fault, and calls onWanted if the sources of held rules changed.
func (h *KeyBarrier) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	before := h.wantedSources()
	for _, e := range batch {
		switch {
		case e.KeySet != nil && e.Op == mesh.Delete:
			delete(h.reported, e.KeySet.Source)
		case e.KeySet != nil:
			h.reported[e.KeySet.Source] = true
		case e.Config != nil && h.rules.Hold(e):
			continue
		}
		out = append(out, e)
	}
	out = h.rules.Release(out)
	if now := h.wantedSources(); !maps.Equal(before, now) {
		h.onWanted(now)
	}
	return out
}

// isReady reports whether all key sources of an object have reported keys or a fault. It returns
// true for an object without key sources.
func (h *KeyBarrier) isReady(c *config.Config) bool {
	for source := range h.sourcesOf(c) {
		if !h.reported[source] {
			return false
		}
	}
	return true
}

// wantedSources returns the key sources of all held rules, each with the longest timeout that a
// rule sets.
func (h *KeyBarrier) wantedSources() map[mesh.KeySource]time.Duration {
	wants := map[mesh.KeySource]time.Duration{}
	for c := range h.rules.Objects() {
		for source, timeout := range h.sourcesOf(c) {
			wants[source] = max(wants[source], timeout)
		}
	}
	return wants
}
