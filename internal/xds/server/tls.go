package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// TLS is the settings of a port with TLS.
type TLS struct {
	Files CertificateFiles
	// Certificate takes the place of Files, if it is not nil: it is asked in each handshake. Roots gives what clients' certificates are
	// verified against, besides; nil: nobody is asked for one.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	Roots       func() *x509.CertPool
	// MinVersion is tls.VersionTLS12, which 0 is, or tls.VersionTLS13. CipherSuites are those of TLS 1.2; none: Go's choice.
	MinVersion   uint16
	CipherSuites []uint16
	// TrustDomains are those that clients' identities may be of; nil: any that the roots vouch for.
	TrustDomains func() []string
}

// Config makes the configuration of a port. Files must be good, and are read again whenever they change.
//
// A client need not show a certificate, for it may have another way to say who it is. One that it shows must be verified, and
// be an X.509-SVID: with exactly one URI, of a trust domain that is ours (SPIFFE X509-SVID, 2 and 5.2).
func (t TLS) Config(log *slog.Logger) (*tls.Config, error) {
	now, err := t.source(log)
	if err != nil {
		return nil, err
	}
	base := &tls.Config{
		MinVersion: max(tls.VersionTLS12, t.MinVersion), CipherSuites: t.CipherSuites, NextProtos: []string{"h2"},
		// A session that is resumed keeps the identity that it began with, whatever became of it.
		SessionTicketsDisabled: true,
		VerifyPeerCertificate:  t.verify,
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

// source gives what finds the certificates of a handshake.
func (t TLS) source(log *slog.Logger) (func(*tls.ClientHelloInfo) (pair, error), error) {
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
	return func(*tls.ClientHelloInfo) (pair, error) { return certificates.get(), nil }, nil
}

// verify looks at a client certificate that the roots vouch for.
func (t TLS) verify(_ [][]byte, chains [][]*x509.Certificate) error {
	if len(chains) == 0 {
		return nil // none was shown
	}
	id, err := spiffe.LeafID(chains[0][0])
	if err != nil {
		return fmt.Errorf("the client's certificate: %w", err)
	}
	if t.TrustDomains != nil && !slices.Contains(t.TrustDomains(), id.TrustDomain()) {
		return fmt.Errorf("the client's certificate is of a foreign trust domain, %q", id.TrustDomain())
	}
	return nil
}
