package credential

import (
	"maps"
	"slices"

	"github.com/meshpilot/meshpilot/internal/ingest/hold"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// SecretHold delays new objects and new versions of objects until the Secret that they name has
// been read, or is known to be unavailable. Otherwise proxies would briefly be configured as if the
// Secret did not exist. It must be used by the goroutine of the pipeline.
type SecretHold struct {
	secret  func(*config.Config) (config.Key, bool)
	want    func([]config.Key)
	named   map[config.Key]config.Key // by object, including held ones
	known   map[config.Key]bool       // Secrets that are settled
	objects *hold.Until
}

// settledSource is the source of the events that Settled returns.
const settledSource = "settled secrets"

// SecretSettled returns the event that ends the wait for a Secret.
func SecretSettled(secret config.Key) mesh.Event {
	return mesh.Event{Source: settledSource, Problems: &mesh.Problems{Scope: secret.String()}}
}

// NewSecretHold returns a SecretHold that holds nothing before StartHolding. secret returns the
// Secret that an object names, and false if it names none. want is called with all named Secrets,
// sorted, each time they change. The caller must ensure that SecretSettled is sent for each of
// them.
func NewSecretHold(secret func(*config.Config) (config.Key, bool), want func([]config.Key)) *SecretHold {
	h := &SecretHold{secret: secret, want: want, named: map[config.Key]config.Key{}, known: map[config.Key]bool{}}
	h.objects = hold.NewUntil(func(c *config.Config) bool {
		secret, ok := h.named[c.Key]
		return !ok || h.known[secret]
	})
	return h
}

// StartHolding starts holding objects. Before that nothing is held, because proxies are not served
// yet.
func (h *SecretHold) StartHolding() { h.objects.Start() }

// Convert returns batch without the objects that must wait for their Secret, and appends objects
// whose wait has ended. An upsert of the Secret, which stays, and an event of SecretSettled, which
// is removed, end the wait. It calls h.want if the named Secrets changed, and forgets Secrets that
// no object names any longer.
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
		case e.Config != nil:
			h.recordSecret(e)
			if h.objects.Hold(e) {
				continue
			}
		}
		out = append(out, e)
	}
	now := h.namedSecrets()
	maps.DeleteFunc(h.known, func(k config.Key, _ bool) bool {
		_, wanted := slices.BinarySearchFunc(now, k, config.Key.Compare)
		return !wanted
	})
	out = h.objects.Release(out)
	if !slices.Equal(before, now) {
		h.want(now)
	}
	return out
}

// markSettled records that the wait for a Secret has ended; scope is the text of its key. It does
// nothing if no object names it.
func (h *SecretHold) markSettled(scope string) {
	for _, k := range h.named {
		if k.String() == scope {
			h.known[k] = true
		}
	}
}

// recordSecret records which Secret the object of an event names. It forgets the object if it names
// none or is deleted.
func (h *SecretHold) recordSecret(e mesh.Event) {
	if e.Op != mesh.Delete {
		if secret, ok := h.secret(e.Config); ok {
			h.named[e.Config.Key] = secret
			return
		}
	}
	delete(h.named, e.Config.Key)
}

// namedSecrets returns all named Secrets, sorted.
func (h *SecretHold) namedSecrets() []config.Key {
	list := slices.SortedFunc(maps.Values(h.named), config.Key.Compare)
	return slices.Compact(list)
}
