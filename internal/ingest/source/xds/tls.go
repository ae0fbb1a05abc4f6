package xds

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// Identity is the paths of the control plane's certificate files, in PEM, for mode ISTIO_MUTUAL.
type Identity struct {
	Certificate, Key, Roots string
}

// security is the validated content of meshConfig.configSources[].tlsSettings.
type security struct {
	mode            networking.ClientTLSSettings_TLSmode
	certificate     string // paths or PEM text; "" for none
	key             string
	roots           string // "" for the system's
	revoked         string // certificate revocation lists; "" for none
	host            string // the server name to send and to verify
	subjectAltNames []string
	skipVerify      bool
}

// newSecurity returns the validated settings for connections to host, or to the SNI in t if set; a
// nil t means plain text. It returns an error if the mode lacks or forbids a file (checkFiles), and
// for credentialName. own is the control plane's certificate, which ISTIO_MUTUAL requires. Files
// are read later, for each connection, so that renewed certificates are used.
func newSecurity(t *networking.ClientTLSSettings, host string, own Identity) (security, error) {
	s := security{
		mode:            t.GetMode(),
		certificate:     t.GetClientCertificate(),
		key:             t.GetPrivateKey(),
		roots:           t.GetCaCertificates(),
		revoked:         t.GetCaCrl(),
		host:            cmp.Or(t.GetSni(), host),
		subjectAltNames: t.GetSubjectAltNames(),
		skipVerify:      t.GetInsecureSkipVerify().GetValue(),
	}
	if t.GetCredentialName() != "" {
		return s, errors.New(
			"credentialName: secrets cannot be read here; name files (caCertificates, clientCertificate, privateKey)",
		)
	}
	if err := s.checkFiles(); err != nil {
		return s, err
	}
	if s.mode == networking.ClientTLSSettings_ISTIO_MUTUAL {
		if own == (Identity{}) {
			return s, errors.New(
				"mode ISTIO_MUTUAL: the control plane has no certificate of its own; use MUTUAL and name files",
			)
		}
		s.certificate, s.key, s.roots = own.Certificate, own.Key, own.Roots
	}
	return s, nil
}

// checkFiles returns an error if the files do not fit the mode, or the mode is unknown. DISABLE and
// ISTIO_MUTUAL forbid certificate, key and roots, SIMPLE forbids certificate and key, MUTUAL
// requires both.
func (s security) checkFiles() error {
	hasClient := s.certificate != "" || s.key != ""
	switch s.mode {
	case networking.ClientTLSSettings_DISABLE:
		if hasClient || s.roots != "" {
			return errors.New("mode is DISABLE, but there are certificates: want SIMPLE or MUTUAL")
		}
	case networking.ClientTLSSettings_SIMPLE:
		if hasClient {
			return errors.New("mode is SIMPLE, but there is a client certificate: want MUTUAL")
		}
	case networking.ClientTLSSettings_MUTUAL:
		if s.certificate == "" || s.key == "" {
			return errors.New("mode MUTUAL needs clientCertificate and privateKey")
		}
	case networking.ClientTLSSettings_ISTIO_MUTUAL:
		if hasClient || s.roots != "" {
			return errors.New("mode ISTIO_MUTUAL uses the control plane's own certificate, so none may be named")
		}
	default:
		return fmt.Errorf("mode %s is unknown", s.mode)
	}
	return nil
}

// newCredentials reads the files and returns the transport credentials: plain text for DISABLE,
// otherwise TLS. Without roots the system's are used; with skipVerify the server is not verified.
// It returns an error if a file is unreadable or invalid. With subjectAltNames these are verified
// instead of the host name.
func (s security) newCredentials() (credentials.TransportCredentials, error) {
	if s.mode == networking.ClientTLSSettings_DISABLE {
		return insecure.NewCredentials(), nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.host}
	if s.certificate != "" {
		cert, err := s.keyPair()
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{cert}
	}
	if s.roots != "" {
		text, err := pemText(s.roots)
		if err != nil {
			return nil, fmt.Errorf("CA certificates: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("CA certificates: %s has none", s.roots)
		}
	}
	lists, err := s.readRevocations()
	if err != nil {
		return nil, fmt.Errorf("certificate revocation list: %w", err)
	}
	if s.skipVerify {
		c.InsecureSkipVerify = true
		return credentials.NewTLS(c), nil
	}
	if len(s.subjectAltNames) > 0 {
		c.InsecureSkipVerify = true // only the host name; everything else is verified below
	}
	roots := c.RootCAs
	c.VerifyConnection = func(state tls.ConnectionState) error { return s.verifyPeer(state, roots, lists) }
	return credentials.NewTLS(c), nil
}

// keyPair returns the client's certificate and key, each from a PEM file or PEM text. It returns an
// error if one cannot be read or they do not match.
func (s security) keyPair() (tls.Certificate, error) {
	cert, err := pemText(s.certificate)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := pemText(s.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(cert, key)
}

// pemText returns the content of the file at a path, or the argument itself if that is PEM text.
// Istio accepts both too, although its API documents only paths.
func pemText(pathOrText string) ([]byte, error) {
	if strings.HasPrefix(strings.TrimSpace(pathOrText), "-----BEGIN ") {
		return []byte(pathOrText), nil
	}
	return os.ReadFile(pathOrText)
}

// verifyPeer performs the checks that the TLS library does not: revocation, and, if
// s.subjectAltNames replaces the host's name, the chain and that the certificate has one of these
// names. Names are compared exactly. One chain without a revoked certificate is enough. It returns
// the reason if the server is refused.
func (s security) verifyPeer(state tls.ConnectionState, roots *x509.CertPool, lists []*x509.RevocationList) error {
	chains := state.VerifiedChains
	leaf := state.PeerCertificates[0]
	if len(s.subjectAltNames) > 0 {
		o := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			o.Intermediates.AddCert(c)
		}
		var err error
		if chains, err = leaf.Verify(o); err != nil {
			return err
		}
		if names := namesOf(leaf); !slices.ContainsFunc(
			s.subjectAltNames,
			func(n string) bool { return slices.Contains(names, n) },
		) {
			return fmt.Errorf("the server's certificate is for %s, and none of subjectAltNames",
				strings.Join(names, ", "))
		}
	}
	var err error
	for _, chain := range chains {
		if err = checkRevocation(chain, lists); err == nil {
			return nil
		}
	}
	return err
}

// namesOf returns the DNS names, URIs and IP addresses of a certificate as texts. The subject is
// not included.
func namesOf(c *x509.Certificate) []string {
	names := slices.Clone(c.DNSNames)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
