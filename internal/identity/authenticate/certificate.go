package authenticate

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// ClientCertificate authenticates TLS clients by their certificate, which the TLS server has
// verified against the mesh's roots.
type ClientCertificate struct{ TrustDomains TrustDomains }

var _ Authenticator = ClientCertificate{}

// String returns "client certificate".
func (ClientCertificate) String() string { return "client certificate" }

// Authenticate returns the SPIFFE ID of the client's certificate, with HasCertificate set. It
// returns ErrNoCredentials without a verified certificate, and another error if that is not an
// X.509-SVID of the mesh's trust domains.
func (c ClientCertificate) Authenticate(_ context.Context, r Request) (Caller, error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Caller{}, ErrNoCredentials
	}
	id, err := c.TrustDomains.LeafID(r.TLS.VerifiedChains[0][0])
	if err != nil {
		return Caller{}, err
	}
	return Caller{ID: id, HasCertificate: true}, nil
}

// LeafID returns the SPIFFE ID of a verified certificate. It returns an error if that is not an
// X.509-SVID, or its trust domain is neither the mesh's nor an alias.
func (t TrustDomains) LeafID(c *x509.Certificate) (spiffe.ID, error) {
	id, err := spiffe.LeafID(c)
	if err != nil {
		return spiffe.ID{}, err
	}
	if !slices.Contains(t(), id.TrustDomain()) {
		return spiffe.ID{}, fmt.Errorf("%s is not in a trust domain of the mesh", id)
	}
	return id, nil
}
