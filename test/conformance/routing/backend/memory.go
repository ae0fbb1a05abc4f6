package backend

import (
	"net/http"
	"sync"
)

// Sighting is a request as the server received it.
type Sighting struct {
	ID string `json:"id"`
	// Instance is the address at which it arrived.
	Instance  string      `json:"instance"`
	Attempt   int         `json:"attempt"` // from 0, at all instances
	Method    string      `json:"method"`
	Path      string      `json:"path"` // with the query, as it stands
	Authority string      `json:"authority"`
	Protocol  string      `json:"protocol"` // "HTTP/1.1", "HTTP/2.0", "lines"
	Header    http.Header `json:"header"`
	// ServerName is that of TLS; TLS is set if the connection used TLS.
	TLS        bool   `json:"tls"`
	ServerName string `json:"serverName"`
}

// Memory is what servers have seen. It may be shared.
type Memory struct {
	mu   sync.Mutex
	seen map[string][]Sighting
}

// NewMemory makes an empty one.
func NewMemory() *Memory { return &Memory{seen: map[string][]Sighting{}} }

// SightingsOf returns the sightings of a request, in their order.
func (m *Memory) SightingsOf(id string) []Sighting {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]Sighting(nil), m.seen[id]...)
}

// recordSighting notes a sighting, and returns it with its attempt.
func (m *Memory) recordSighting(s Sighting) Sighting {
	m.mu.Lock()
	defer m.mu.Unlock()
	s.Attempt = len(m.seen[s.ID])
	m.seen[s.ID] = append(m.seen[s.ID], s)
	return s
}
