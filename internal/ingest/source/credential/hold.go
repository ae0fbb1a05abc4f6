package credential

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// Hold knows which Secrets objects name, and keeps new objects, and new versions, back until it is known of the Secret what it holds, or
// that it cannot be had. Else proxies would be told for as long as the first reading takes that there is none. It goes with one
// goroutine, that of the pipeline.
type Hold struct {
	secret func(*config.Config) (config.Key, bool)
	want   func([]config.Key)
	open   bool
	named  map[config.Key]config.Key // by object, held ones too
	known  map[config.Key]bool       // Secrets
	held   map[config.Key]mesh.Event
}

// settledSource is whose events say of a Secret, by the Scope of Problems, that nothing more is to be waited for.
const settledSource = "settled secrets"

// Settled is the event that tells a Hold that waiting for a Secret has an end.
func Settled(secret config.Key) mesh.Event {
	return mesh.Event{Source: settledSource, Problems: &mesh.Problems{Scope: secret.String()}}
}

// NewHold makes a Hold that holds nothing before Close. Secret gives what an object names; want is told all that are named, sorted, each
// time that they are others. Somebody must then see to it that each of them is Settled.
func NewHold(secret func(*config.Config) (config.Key, bool), want func([]config.Key)) *Hold {
	return &Hold{secret: secret, want: want, open: true, named: map[config.Key]config.Key{}, known: map[config.Key]bool{}, held: map[config.Key]mesh.Event{}}
}

// Close has objects held from now on. At the start they are not: what serves proxies waits then.
func (h *Hold) Close() { h.open = false }

// Convert takes objects out of the batch that are to be held, and puts those in that are not any more.
func (h *Hold) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	before := h.secrets()
	for _, e := range batch {
		switch {
		case e.Problems != nil && e.Source == settledSource:
			h.settle(e.Problems.Scope)
			continue
		case e.Config != nil && e.Config.Kind == api.Secret && e.Op == mesh.Upsert:
			h.settle(e.Config.Key.String())
		case e.Config != nil && h.holds(e):
			continue
		}
		out = append(out, e)
	}
	now := h.secrets()
	maps.DeleteFunc(h.known, func(k config.Key, _ bool) bool {
		_, wanted := slices.BinarySearchFunc(now, k, config.Key.Compare)
		return !wanted
	})
	for _, k := range slices.SortedFunc(maps.Keys(h.held), config.Key.Compare) {
		if h.known[h.named[k]] {
			out = append(out, h.held[k])
			delete(h.held, k)
		}
	}
	if !slices.Equal(before, now) {
		h.want(now)
	}
	return out
}

func (h *Hold) settle(scope string) {
	for _, k := range h.named {
		if k.String() == scope {
			h.known[k] = true
		}
	}
}

// holds takes note of an object, and says whether it is held.
func (h *Hold) holds(e mesh.Event) bool {
	k := e.Config.Key
	delete(h.held, k) // this one is newer
	if e.Op == mesh.Delete {
		delete(h.named, k)
		return false
	}
	secret, ok := h.secret(e.Config)
	if !ok {
		delete(h.named, k)
		return false
	}
	h.named[k] = secret
	if h.open || h.known[secret] {
		return false
	}
	h.held[k] = e
	return true
}

// secrets gives all that are named, sorted.
func (h *Hold) secrets() []config.Key {
	list := slices.SortedFunc(maps.Values(h.named), config.Key.Compare)
	return slices.Compact(list)
}
