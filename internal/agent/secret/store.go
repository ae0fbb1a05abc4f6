package secret

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// Names that Envoy knows its own identity by, as Istio has them.
const (
	// Workload is the workload's certificate with its key.
	Workload = "default"
	// Roots are the mesh's.
	Roots = "ROOTCA"
)

// Secret is a certificate with its key, or roots, or roots with a list of what they revoked. All of it is PEM.
type Secret struct {
	Chain, Key []byte
	Roots      []byte
	Revoked    []byte
	// Domains are which of the roots vouch for which trust domains, sorted by name; none: all for all. Of other trust domains nobody is
	// believed then.
	Domains []Domain
	// Expires is when the first certificate of the chain, or of the roots, does; zero where there is none.
	Expires time.Time
}

// Domain is the roots of a trust domain, in PEM.
type Domain struct {
	Name  string
	Roots []byte
}

func (s Secret) equal(o Secret) bool {
	return bytes.Equal(s.Chain, o.Chain) && bytes.Equal(s.Key, o.Key) && bytes.Equal(s.Roots, o.Roots) && bytes.Equal(s.Revoked, o.Revoked) &&
		slices.EqualFunc(s.Domains, o.Domains, func(a, b Domain) bool { return a.Name == b.Name && bytes.Equal(a.Roots, b.Roots) })
}

// Versioned is a Secret and which one it is: a later one of the same name has a higher version.
type Versioned struct {
	Secret
	Version uint64
}

// Store has the secrets by name. It is for use by many goroutines.
type Store struct {
	mu      sync.Mutex
	secrets map[string]Versioned
	revoked []byte
	changed chan struct{}
	version uint64
}

// NewStore makes one that has nothing yet.
func NewStore() *Store {
	return &Store{secrets: map[string]Versioned{}, changed: make(chan struct{})}
}

// Set sets the secret of a name. One that is equal to what is there is no change. The mesh's roots, whoever brings them, come to have
// the lists of Revoke.
func (s *Store) Set(name string, secret Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(name, secret)
}

// Revoke sets the lists of revoked certificates that go with the mesh's roots, in PEM.
func (s *Store) Revoke(lists []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = lists
	if roots, ok := s.secrets[Roots]; ok {
		s.set(Roots, roots.Secret)
	}
}

func (s *Store) set(name string, secret Secret) {
	if name == Roots {
		secret.Revoked = s.revoked
	}
	if old, ok := s.secrets[name]; ok && old.equal(secret) {
		return
	}
	s.version++
	s.secrets[name] = Versioned{Secret: secret, Version: s.version}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Get gives the secret of a name, if there is one.
func (s *Store) Get(name string) (Versioned, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.secrets[name]
	return v, ok
}

// Changed gives a channel that is closed at the next change of any secret. Take it before looking: then nothing is missed.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Expiries gives when the secrets expire, by name. Those that do not are left out.
func (s *Store) Expiries() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]time.Time, len(s.secrets))
	for name, v := range s.secrets {
		if !v.Expires.IsZero() {
			all[name] = v.Expires
		}
	}
	return all
}
