package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// TLS contains the settings of a port with TLS.
type TLS struct {
	Files CertificateFiles
	// If Certificate is not nil, it replaces Files and is called in each handshake. Roots then
	// returns the roots that verify clients' certificates. If Roots is nil, clients are not asked
	// for a certificate.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Roots       func() *x509.CertPool
	// MinVersion is tls.VersionTLS12 (also if 0) or tls.VersionTLS13. CipherSuites are the cipher
	// suites of TLS 1.2; if empty, Go's defaults are used.
	MinVersion   uint16
	CipherSuites []uint16
	// TrustDomains returns the trust domains that clients' identities may have. If nil, any domain
	// that the roots verify is accepted.
	TrustDomains func() []string
}

// Config returns the TLS configuration of a port. It returns an error if Certificate is not set and
// Files are not valid. Files are read again whenever they change. The lowest version is TLS 1.2, or
// MinVersion if that is higher. Without roots no client certificate is requested.
//
// A client need not present a certificate, because it may authenticate in another way. A
// certificate that it presents must be verified, and be an X.509-SVID. An X.509-SVID has exactly
// one URI, and here it must be of an accepted trust domain (SPIFFE X509-SVID, 2 and 5.2).
func (t TLS) Config(log *slog.Logger) (*tls.Config, error) {
	now, err := t.certificateSource(log)
	if err != nil {
		return nil, err
	}
	base := &tls.Config{
		MinVersion: max(tls.VersionTLS12, t.MinVersion), CipherSuites: t.CipherSuites, NextProtos: []string{"h2"},
		// A resumed session would keep its original identity, even if the certificate has expired
		// or the roots have changed since.
		SessionTicketsDisabled: true,
		VerifyPeerCertificate:  t.verifyPeer,
	}
	base.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		now, err := now(hello)
		if err != nil {
			return nil, err
		}
		c := base.Clone()
		c.GetConfigForClient = nil
		c.Certificates = []tls.Certificate{*now.own}
		if now.roots != nil {
			c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, now.roots
		}
		return c, nil
	}
	return base, nil
}

// certificateSource returns the function that selects the certificate and roots of a handshake.
// They are t.Certificate and t.Roots if Certificate is set, otherwise the files. It reads the files
// now, and returns an error if they are not valid.
func (t TLS) certificateSource(log *slog.Logger) (func(*tls.ClientHelloInfo) (pair, error), error) {
	if t.Certificate != nil {
		return func(hello *tls.ClientHelloInfo) (p pair, err error) {
			if t.Roots != nil {
				p.roots = t.Roots()
			}
			p.own, err = t.Certificate(hello)
			return p, err
		}, nil
	}
	certificates, err := newCertificates(t.Files, log)
	if err != nil {
		return nil, err
	}
	return func(*tls.ClientHelloInfo) (pair, error) { return certificates.currentPair(), nil }, nil
}

// verifyPeer returns an error if the verified client certificate is not an X.509-SVID, or its trust
// domain is not in TrustDomains. If TrustDomains is nil, any is accepted. It returns nil if no
// certificate was presented.
func (t TLS) verifyPeer(_ [][]byte, chains [][]*x509.Certificate) error {
	if len(chains) == 0 {
		return nil // no certificate was presented
	}
	id, err := spiffe.LeafID(chains[0][0])
	if err != nil {
		return fmt.Errorf("the client's certificate: %w", err)
	}
	if t.TrustDomains != nil && !slices.Contains(t.TrustDomains(), id.TrustDomain()) {
		return fmt.Errorf(
			"the client's certificate has trust domain %q, which is neither the mesh's nor an alias",
			id.TrustDomain())
	}
	return nil
}
