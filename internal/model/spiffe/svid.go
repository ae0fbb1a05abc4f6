package spiffe

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
)

// errNoURI and errManyURIs are of certificates that are not X.509-SVIDs: an SVID has exactly one URI (X509-SVID, 2).
var (
	errNoURI    = errors.New("the certificate has no URI, so it is not an X.509-SVID")
	errManyURIs = errors.New("the certificate has more than one URI: an X.509-SVID has exactly one")
)

// Leaf gives the ID that a certificate identifies its holder by, if it may: it is held to all that X509-SVID asks of a leaf, also
// where validators may be more lenient. That its signature leads to a root is not looked at here.
func Leaf(c *x509.Certificate) (ID, error) {
	id, err := idOf(c)
	if err != nil {
		return ID{}, err
	}
	_, critical := extension(c, oidSubjectAltName)
	_, usage := extension(c, oidKeyUsage)
	both := slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	for _, rule := range [...]struct {
		broken bool
		reason string
	}{
		{id.Path() == "", "the ID of a leaf has a path (X509-SVID, 3.1)"},
		{c.IsCA, "it is an authority's (X509-SVID, 4.1)"},
		{c.KeyUsage == 0 || !usage, "key usage must be there, and be critical (X509-SVID, 4.3)"},
		{c.KeyUsage&x509.KeyUsageDigitalSignature == 0, "key usage lacks digitalSignature (X509-SVID, 4.3)"},
		{c.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0, "its key may sign certificates or revocation lists (X509-SVID, 4.3)"},
		{len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0 && !both, "extended key usage lacks serverAuth or clientAuth (X509-SVID, 4.4)"},
		{len(c.Subject.Names) == 0 && !critical, "the URI must be critical where there is no subject (X509-SVID, 3.1)"},
	} {
		if rule.broken {
			return ID{}, fmt.Errorf("the certificate of %s identifies nobody: %s", id, rule.reason)
		}
	}
	return id, nil
}

// CheckSigner says what keeps a certificate from being that of an authority: X509-SVID, 3.2 and 4. That it has an ID is not asked,
// for the authorities that people bring seldom do.
func CheckSigner(c *x509.Certificate) error {
	_, critical := extension(c, oidKeyUsage)
	id, err := idOf(c)
	for _, rule := range [...]struct {
		broken bool
		reason string
	}{
		{!c.IsCA || !c.BasicConstraintsValid, "it is not that of an authority: basic constraints lack CA"},
		{c.KeyUsage&x509.KeyUsageCertSign == 0, "key usage lacks keyCertSign"},
		{!critical, "key usage is not critical"},
		{err == nil && id.Path() != "", "the ID of an authority has no path"},
		{errors.Is(err, errManyURIs), "it has more than one URI"},
	} {
		if rule.broken {
			return fmt.Errorf("the certificate of %q signs nothing: %s", c.Subject, rule.reason)
		}
	}
	return nil
}

var (
	oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidKeyUsage       = asn1.ObjectIdentifier{2, 5, 29, 15}
)

// extension gives an extension's value, and whether it is there and critical.
func extension(c *x509.Certificate, oid asn1.ObjectIdentifier) (value []byte, critical bool) {
	for _, e := range c.Extensions {
		if e.Id.Equal(oid) {
			return e.Value, e.Critical
		}
	}
	return nil, false
}

// idOf reads the one URI of a certificate. It is read from the extension itself: a URL that was parsed no longer tells
// SPIFFE:// from spiffe://, and Envoy, which compares bytes, does.
func idOf(c *x509.Certificate) (ID, error) {
	value, _ := extension(c, oidSubjectAltName)
	if value == nil {
		return ID{}, errNoURI
	}
	var names asn1.RawValue
	if rest, err := asn1.Unmarshal(value, &names); err != nil || len(rest) > 0 || names.Tag != asn1.TagSequence {
		return ID{}, errors.New("the certificate's alternative names cannot be read")
	}
	const uri = 6 // GeneralName.uniformResourceIdentifier, RFC 5280, 4.2.1.6
	var found []string
	for rest := names.Bytes; len(rest) > 0; {
		var name asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &name); err != nil {
			return ID{}, fmt.Errorf("read the certificate's alternative names: %w", err)
		}
		if name.Class == asn1.ClassContextSpecific && name.Tag == uri {
			found = append(found, string(name.Bytes))
		}
	}
	switch len(found) {
	case 0:
		return ID{}, errNoURI
	case 1:
		return Parse(found[0])
	default:
		return ID{}, errManyURIs
	}
}
