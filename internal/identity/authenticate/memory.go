package authenticate

import (
	"crypto/sha256"
	"sync"
	"time"
)

// memory remembers something of callers for a short time, by the hash of what they have shown: tokens themselves are not kept. It is
// for use by many goroutines.
type memory[V any] struct {
	most int
	now  func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]remembered[V]
}

type remembered[V any] struct {
	what  V
	until time.Time
}

func newMemory[V any](most int, now func() time.Time) *memory[V] {
	return &memory[V]{most: most, now: now, known: map[[sha256.Size]byte]remembered[V]{}}
}

func (m *memory[V]) get(key [sha256.Size]byte) (what V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.known[key]
	if !ok || !m.now().Before(r.until) {
		return what, false
	}
	return r.what, true
}

// put remembers something for d. If there are too many entries, the expired ones are removed, and if none is, one in eight: the price is
// another review of each.
func (m *memory[V]) put(key [sha256.Size]byte, what V, d time.Duration) {
	if d <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	if len(m.known) >= m.most {
		for k, r := range m.known {
			if !now.Before(r.until) {
				delete(m.known, k)
			}
		}
	}
	if len(m.known) >= m.most {
		room := m.most - m.most/8
		for k := range m.known { // in no order, which is fair to all
			if len(m.known) <= room {
				break
			}
			delete(m.known, k)
		}
	}
	m.known[key] = remembered[V]{what, now.Add(d)}
}
