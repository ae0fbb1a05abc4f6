package jwks

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// RuleKeysOptions are the settings and dependencies of RuleKeys.
type RuleKeysOptions struct {
	Settings Settings
	// SourcesOf returns the sources of the keys that a rule needs, with their timeouts, or nil for
	// objects that need none.
	SourcesOf func(*config.Config) map[mesh.KeySource]time.Duration
	// Cache persists keys. If nil, they are not persisted.
	Cache KeyCache
	// OnFetch is called after each fetch with its error.
	OnFetch func(error)
	Log     *slog.Logger
}

// RuleKeys fetches the token issuers' keys that the authentication rules need. Its Barrier keeps
// new rules back until their keys are known.
type RuleKeys struct {
	*Source
	// Barrier is a converter of the pipeline.
	Barrier *KeyBarrier

	sourcesOf func(*config.Config) map[mesh.KeySource]time.Duration

	mu sync.Mutex
	// wanted are needed by rules in effect, held by rules that Barrier keeps back.
	wanted, held map[mesh.KeySource]time.Duration
}

// NewRuleKeys returns RuleKeys without rules. It returns an error if Settings.RootsFile is
// unreadable or has no certificate, but not if it is missing. If certificates of servers are not
// verified (AcceptAnyCertificate), it logs a warning.
func NewRuleKeys(o RuleKeysOptions) (*RuleKeys, error) {
	roots, err := fetch.RootsWithFile(o.Settings.RootsFile)
	if err != nil {
		return nil, err
	}
	if o.Settings.AcceptAnyCertificate {
		o.Log.Warn("certificates of the servers of token issuers' keys are not verified", "env",
			"JWKS_RESOLVER_INSECURE_SKIP_VERIFY")
	}
	k := &RuleKeys{sourcesOf: o.SourcesOf, Source: New(Options{
		Client: fetch.NewClient(fetch.Options{
			Timeout: MaxTimeout, Loopback: o.Settings.Loopback, Blocked: o.Settings.Blocked, Roots: roots,
			AcceptAnyCertificate: o.Settings.AcceptAnyCertificate,
		}),
		Refresh: o.Settings.Refresh, Random: rand.Float64, Log: o.Log, Cache: o.Cache, OnFetch: o.OnFetch,
	})}
	k.Barrier = NewKeyBarrier(o.SourcesOf, k.setHeld)
	return k, nil
}

// SetRules requests the keys that these rules need, which are in effect. It replaces the rules of
// the previous call.
func (k *RuleKeys) SetRules(rules []*config.Config) {
	wanted := map[mesh.KeySource]time.Duration{}
	for _, c := range rules {
		for source, timeout := range k.sourcesOf(c) {
			wanted[source] = max(wanted[source], timeout)
		}
	}
	k.mu.Lock()
	k.wanted = wanted
	k.mu.Unlock()
	k.update()
}

// setHeld requests the keys of rules that are held back until their keys are known, in addition to
// the keys of the rules in effect.
func (k *RuleKeys) setHeld(held map[mesh.KeySource]time.Duration) {
	k.mu.Lock()
	k.held = held
	k.mu.Unlock()
	k.update()
}

// update passes all requested sources, wanted and held, to the Source, with the longest timeout for
// each.
func (k *RuleKeys) update() {
	all := map[mesh.KeySource]time.Duration{}
	k.mu.Lock()
	for _, requested := range []map[mesh.KeySource]time.Duration{k.wanted, k.held} {
		for source, timeout := range requested {
			all[source] = max(all[source], timeout)
		}
	}
	k.mu.Unlock()
	k.SetWanted(all)
}

// startTimeout is the maximum time for which AwaitWanted waits.
const startTimeout = 6 * time.Second

// AwaitWanted blocks until the keys of each rule in effect were fetched or failed, for up to 6
// seconds, or until ctx ends. Without the wait, a restarted control plane would make reconnecting
// proxies reject tokens whose keys they already have.
func (k *RuleKeys) AwaitWanted(ctx context.Context) {
	k.mu.Lock()
	sources := slices.Collect(maps.Keys(k.wanted))
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	k.WaitFor(ctx, sources)
}
