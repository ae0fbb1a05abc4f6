package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// TLS is the settings of a port with TLS.
type TLS struct {
	Files CertificateFiles
	// MinVersion is tls.VersionTLS12, which 0 is, or tls.VersionTLS13. CipherSuites are those of TLS 1.2; none: Go's choice.
	MinVersion   uint16
	CipherSuites []uint16
	// TrustDomains are those that clients' identities may be of; nil: any that the roots vouch for.
	TrustDomains func() []string
}

// Config makes the configuration of a port. The files must be good, and are read again whenever they change.
//
// A client need not show a certificate, for it may have another way to say who it is. One that it shows must be verified, and
// be an X.509-SVID: with exactly one URI, of a trust domain that is ours (SPIFFE X509-SVID, 2 and 5.2).
func (t TLS) Config(log *slog.Logger) (*tls.Config, error) {
	certificates, err := newCertificates(t.Files, log)
	if err != nil {
		return nil, err
	}
	base := &tls.Config{
		MinVersion: max(tls.VersionTLS12, t.MinVersion), CipherSuites: t.CipherSuites, NextProtos: []string{"h2"},
		// A session that is resumed keeps the identity that it began with, whatever became of it.
		SessionTicketsDisabled: true,
		VerifyPeerCertificate:  t.verify,
	}
	base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := certificates.get()
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

// verify looks at a client certificate that the roots vouch for.
func (t TLS) verify(_ [][]byte, chains [][]*x509.Certificate) error {
	if len(chains) == 0 {
		return nil // none was shown
	}
	uris := chains[0][0].URIs
	if len(uris) != 1 || uris[0].Scheme != "spiffe" || uris[0].Host == "" {
		return errors.New("the client's certificate must have exactly one URI, spiffe://trust-domain/path")
	}
	if t.TrustDomains != nil && !slices.Contains(t.TrustDomains(), uris[0].Host) {
		return fmt.Errorf("the client's certificate is of a foreign trust domain, %q", uris[0].Host)
	}
	return nil
}
