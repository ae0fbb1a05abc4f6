package authority

import (
	"context"
	"crypto/x509"
	"maps"
	"sync"
	"time"

	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// maxIssued limits the identities whose last certificate is recorded.
const maxIssued = 20_000

// Inventory contains the certificates of the authority, for diagnostics. It has no keys.
type Inventory struct {
	// Roots are the trust anchors of the mesh.
	Roots []*x509.Certificate
	// Signing is the signing certificate with its intermediates. It is empty if a root signs, or an
	// external signer does.
	Signing []*x509.Certificate
	// Serving is the certificate of the TLS ports, or nil if there is none yet.
	Serving *x509.Certificate
	// Issued has the newest certificate of each identity that this replica has issued since its
	// start, for at most maxIssued identities.
	Issued map[spiffe.ID]IssuedCertificate
}

// IssuedCertificate describes a certificate of a workload.
type IssuedCertificate struct {
	Serial              string
	NotBefore, NotAfter time.Time
}

// Inventory returns the current certificates: the roots, the own authority's signing chain, the
// serving certificate, and the newest one issued to each identity. It may be called before Opened
// is closed, and returns fewer certificates then.
func (s *Server) Inventory() Inventory {
	x := Inventory{Issued: s.issued.list()}
	if s.issuer != nil {
		x.Roots, _ = s.issuer.Roots()
	}
	if local, ok := s.issuer.(*ca.Authority); ok {
		if m, _ := local.Material(); m != nil {
			x.Signing = m.Intermediates
		}
	}
	if s.serving != nil {
		if c, err := s.serving.GetCertificate(nil); err == nil {
			x.Serving = c.Leaf
		}
	}
	return x
}

// issuedCache has the newest certificate of each identity. It is safe for concurrent use.
type issuedCache struct {
	mu   sync.Mutex
	byID map[spiffe.ID]IssuedCertificate
}

// record stores the certificate of an identity in place of its last one. For an identity that is
// not stored, if maxIssued are, it first evicts the ones whose certificate has expired at the time
// now. If that evicts none, it stores nothing.
func (c *issuedCache) record(id spiffe.ID, leaf *x509.Certificate, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[spiffe.ID]IssuedCertificate{}
	}
	if _, known := c.byID[id]; !known && len(c.byID) >= maxIssued {
		maps.DeleteFunc(c.byID, func(_ spiffe.ID, x IssuedCertificate) bool { return now.After(x.NotAfter) })
		if len(c.byID) >= maxIssued {
			return
		}
	}
	c.byID[id] = IssuedCertificate{leaf.SerialNumber.Text(16), leaf.NotBefore, leaf.NotAfter}
}

// list returns a copy of all entries.
func (c *issuedCache) list() map[spiffe.ID]IssuedCertificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byID)
}

// recordingIssuer is an Issuer that records the certificates that it issues.
type recordingIssuer struct {
	ca.Issuer
	issued *issuedCache
}

// Issue returns the result of the wrapped Issuer and records the certificate. A failed request is
// not recorded.
func (r recordingIssuer) Issue(ctx context.Context, q ca.Request) (ca.Issued, error) {
	x, err := r.Issuer.Issue(ctx, q)
	if err == nil {
		r.issued.record(q.ID, x.Chain[0], time.Now())
	}
	return x, err
}
