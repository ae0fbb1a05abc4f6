package authenticate

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Certificate believes certificates of TLS clients, which the connection has verified against the mesh's roots.
type Certificate struct{ TrustDomains TrustDomains }

var _ Authenticator = Certificate{}

// String names the kind.
func (Certificate) String() string { return "client certificate" }

// Authenticate gives the ID of the client's certificate.
func (c Certificate) Authenticate(_ context.Context, r Request) (Caller, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Caller{}, ErrNoCredentials
	}
	id, err := c.TrustDomains.Leaf(r.TLS.VerifiedChains[0][0])
	if err != nil {
		return Caller{}, err
	}
	return Caller{ID: id, HasCertificate: true}, nil
}

// Leaf gives the ID of a certificate that the mesh's roots vouch for. It must be of the mesh's trust domain, or of one of those
// that count as it.
func (t TrustDomains) Leaf(c *x509.Certificate) (spiffe.ID, error) {
	id, err := spiffe.Leaf(c)
	if err != nil {
		return spiffe.ID{}, err
	}
	if !slices.Contains(t(), id.TrustDomain()) {
		return spiffe.ID{}, fmt.Errorf("%s is of a foreign trust domain", id)
	}
	return id, nil
}
