package secret

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/base/notify"
)

// SDS names of the workload's own identity, as in Istio.
const (
	// WorkloadName is the name of the workload's certificate and key.
	WorkloadName = "default"
	// RootsName is the name of the mesh's roots.
	RootsName = "ROOTCA"
)

// Secret is a certificate with its key, or roots to trust, optionally with their revocation lists.
// All fields are PEM.
type Secret struct {
	Chain, Key []byte
	Roots      []byte
	// CRLs are the revocation lists of Roots.
	CRLs []byte
	// TrustDomains maps trust domains to the roots that may sign their identities, sorted by name.
	// If empty, every root may sign for every trust domain. Otherwise peers of any other trust
	// domain are rejected.
	TrustDomains []TrustDomain
	// Expires is the earliest expiry of the first certificate of the chain, or of the roots. Zero
	// means that the secret does not expire.
	Expires time.Time
}

// TrustDomain is the name of a trust domain with its roots in PEM.
type TrustDomain struct {
	Name  string
	Roots []byte
}

// equal reports whether two secrets have the same contents. It ignores when they expire.
func (s Secret) equal(o Secret) bool {
	return bytes.Equal(s.Chain, o.Chain) && bytes.Equal(s.Key, o.Key) &&
		bytes.Equal(s.Roots, o.Roots) && bytes.Equal(s.CRLs, o.CRLs) &&
		slices.EqualFunc(s.TrustDomains, o.TrustDomains, func(a, b TrustDomain) bool {
			return a.Name == b.Name && bytes.Equal(a.Roots, b.Roots)
		})
}

// Versioned is a Secret with its version in the store. Later secrets of the same name have higher
// versions.
type Versioned struct {
	Secret
	Version uint64
}

// Store holds secrets by name. It is safe for concurrent use.
type Store struct {
	mu      sync.Mutex
	secrets map[string]Versioned
	crls    []byte
	changed notify.Broadcast
	version uint64
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{secrets: map[string]Versioned{}}
}

// Set stores the secret of a name, replacing the previous one, and closes the channel of Changed.
// It does nothing if the two are equal. The secret named RootsName always gets the revocation lists
// of SetCRLs.
func (s *Store) Set(name string, secret Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(name, secret)
}

// SetCRLs sets the revocation lists, in PEM, of the secret named RootsName, now and for later calls
// of Set.
func (s *Store) SetCRLs(lists []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crls = lists
	if roots, ok := s.secrets[RootsName]; ok {
		s.setLocked(RootsName, roots.Secret)
	}
}

// setLocked stores a secret, like Set, for callers that hold s.mu. An equal secret changes and
// notifies nothing. The revocation lists of the secret RootsName are replaced by the store's.
func (s *Store) setLocked(name string, secret Secret) {
	if name == RootsName {
		secret.CRLs = s.crls
	}
	if old, ok := s.secrets[name]; ok && old.equal(secret) {
		return
	}
	s.version++
	s.secrets[name] = Versioned{Secret: secret, Version: s.version}
	s.changed.Notify()
}

// Get returns the secret of a name, and whether there is one.
func (s *Store) Get(name string) (Versioned, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.secrets[name]
	return v, ok
}

// Changed returns a channel that is closed at the next change of any secret. Call it before Get, so
// that no change between the two is missed.
func (s *Store) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed.Changed()
}

// Expiries returns when each secret expires, by name. Secrets that do not expire are left out.
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
