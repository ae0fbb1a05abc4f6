package credential

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// SecretHold delays new objects and new versions of objects until the Secret that they name has
// been read, or is known to be unavailable. Otherwise proxies would briefly be configured as if the
// Secret did not exist. It must be used by the goroutine of the pipeline.
type SecretHold struct {
	secret func(*config.Config) (config.Key, bool)
	want   func([]config.Key)
	open   bool                      // nothing is held
	named  map[config.Key]config.Key // by object, including held ones
	known  map[config.Key]bool       // Secrets that are settled
	held   map[config.Key]mesh.Event
}

// settledSource is the source of the events that Settled returns.
const settledSource = "settled secrets"

// SecretSettled returns the event that ends the wait for a Secret.
func SecretSettled(secret config.Key) mesh.Event {
	return mesh.Event{Source: settledSource, Problems: &mesh.Problems{Scope: secret.String()}}
}

// NewSecretHold returns a Hold that holds nothing until Close. secret returns the Secret that an
// object names. want is called with all named Secrets, sorted, each time they change. The caller
// must ensure that Settled is sent for each of them.
func NewSecretHold(secret func(*config.Config) (config.Key, bool), want func([]config.Key)) *SecretHold {
	return &SecretHold{
		secret: secret,
		want:   want,
		open:   true,
		named:  map[config.Key]config.Key{},
		known:  map[config.Key]bool{},
		held:   map[config.Key]mesh.Event{},
	}
}

// StartHolding starts holding objects. Before that nothing is held, because proxies are not served
// yet.
func (h *SecretHold) StartHolding() { h.open = false }

// Convert removes objects that must wait for their Secret from the batch, and adds the ones whose
// wait has ended. Events of the end of a wait are removed too. It requests changed Secrets by
// h.want.
func (h *SecretHold) Convert(batch mesh.Batch) mesh.Batch {
	out := make(mesh.Batch, 0, len(batch))
	before := h.namedSecrets()
	for _, e := range batch {
		switch {
		case e.Problems != nil && e.Source == settledSource:
			h.markSettled(e.Problems.Scope)
			continue
		case e.Config != nil && e.Config.Kind == api.Secret && e.Op == mesh.Upsert:
			h.markSettled(e.Config.Key.String())
		case e.Config != nil && h.mustHold(e):
			continue
		}
		out = append(out, e)
	}
	now := h.namedSecrets()
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

func (h *SecretHold) markSettled(scope string) {
	for _, k := range h.named {
		if k.String() == scope {
			h.known[k] = true
		}
	}
}

// mustHold records the Secret of an object and reports whether the object must wait, in which case
// it is held. A deletion, an object without a Secret and one whose Secret is settled need not wait,
// nor any object once the hold is open.
func (h *SecretHold) mustHold(e mesh.Event) bool {
	k := e.Config.Key
	delete(h.held, k) // the event is newer than the held one
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

// namedSecrets returns all named Secrets, sorted.
func (h *SecretHold) namedSecrets() []config.Key {
	list := slices.SortedFunc(maps.Values(h.named), config.Key.Compare)
	return slices.Compact(list)
}
