package authenticate

import (
	"crypto/sha256"
	"sync"
	"time"
)

// memory remembers callers for a short time, by the hash of what they have shown: tokens themselves are not kept. It is for use
// by many goroutines.
type memory struct {
	most int
	now  func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]remembered
}

type remembered struct {
	caller Caller
	until  time.Time
}

func newMemory(most int, now func() time.Time) *memory {
	return &memory{most: most, now: now, known: map[[sha256.Size]byte]remembered{}}
}

func (m *memory) get(key [sha256.Size]byte) (Caller, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.known[key]
	if !ok || !m.now().Before(r.until) {
		return Caller{}, false
	}
	return r.caller, true
}

// put remembers a caller. When there are too many, what is over is forgotten, and if that is nothing, everything: the price is
// another review of each.
func (m *memory) put(key [sha256.Size]byte, c Caller, d time.Duration) {
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
		clear(m.known)
	}
	m.known[key] = remembered{c, now.Add(d)}
}
