package authenticate

import (
	"crypto/sha256"
	"sync"
	"time"
)

// tokenCache caches a result per credential for a short time. Its keys are hashes, so that it
// stores no tokens. It is safe for concurrent use.
type tokenCache[V any] struct {
	maxEntries int
	now        func() time.Time

	mu      sync.Mutex
	entries map[[sha256.Size]byte]cacheEntry[V]
}

type cacheEntry[V any] struct {
	value   V
	expires time.Time
}

// newTokenCache returns an empty cache for at most maxEntries tokens. now is its clock.
func newTokenCache[V any](maxEntries int, now func() time.Time) *tokenCache[V] {
	return &tokenCache[V]{maxEntries: maxEntries, now: now, entries: map[[sha256.Size]byte]cacheEntry[V]{}}
}

// get returns the value cached for key. ok is false if there is none or it has expired.
func (m *tokenCache[V]) get(key [sha256.Size]byte) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.entries[key]
	if !ok || !m.now().Before(r.expires) {
		return value, false
	}
	return r.value, true
}

// add caches value for d, and does nothing if d is not positive. At maxEntries it first evicts
// expired entries, and if none has expired, one entry in eight at random. An evicted token is only
// reviewed again.
func (m *tokenCache[V]) add(key [sha256.Size]byte, value V, d time.Duration) {
	if d <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if len(m.entries) >= m.maxEntries {
		for k, r := range m.entries {
			if !now.Before(r.expires) {
				delete(m.entries, k)
			}
		}
	}
	if len(m.entries) >= m.maxEntries {
		target := m.maxEntries - m.maxEntries/8
		for k := range m.entries { // map order is random
			if len(m.entries) <= target {
				break
			}
			delete(m.entries, k)
		}
	}
	m.entries[key] = cacheEntry[V]{value, now.Add(d)}
}
