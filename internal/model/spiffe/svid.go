package spiffe

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
)

// errNoURI and errManyURIs are returned for certificates that are not X.509-SVIDs: an SVID has
// exactly one URI (X509-SVID, 2).
var (
	errNoURI    = errors.New("the certificate has no URI, so it is not an X.509-SVID")
	errManyURIs = errors.New("the certificate has more than one URI: an X.509-SVID has exactly one")
)

// LeafID returns the ID in a leaf certificate. It refuses an ID without a path, a CA certificate,
// and a key usage that is missing, lacks digitalSignature, or permits signing certificates or
// revocation lists. Extended key usage, if present, needs serverAuth and clientAuth, and names
// without a subject must be critical (X509-SVID). Key usage need not be critical, as Envoy and Go
// accept. It does not verify the signature.
func LeafID(c *x509.Certificate) (ID, error) {
	id, err := certificateID(c)
	if err != nil {
		return ID{}, err
	}
	_, critical := findExtension(c, oidSubjectAltName)
	both := slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth) &&
		slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	for _, rule := range [...]struct {
		broken bool
		reason string
	}{
		{id.Path() == "", "the ID of a leaf has a path (X509-SVID, 3.1)"},
		{c.IsCA, "it is a CA certificate (X509-SVID, 4.1)"},
		{c.KeyUsage == 0, "key usage must be present (X509-SVID, 4.3)"},
		{c.KeyUsage&x509.KeyUsageDigitalSignature == 0, "key usage lacks digitalSignature (X509-SVID, 4.3)"},
		{c.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0,
			"its key may sign certificates or revocation lists (X509-SVID, 4.3)"},
		{len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0 && !both,
			"extended key usage lacks serverAuth or clientAuth (X509-SVID, 4.4)"},
		{len(c.Subject.Names) == 0 && !critical, "the URI must be critical where there is no subject (X509-SVID, 3.1)"},
	} {
		if rule.broken {
			return ID{}, fmt.Errorf("the certificate of %s is not a valid leaf: %s", id, rule.reason)
		}
	}
	return id, nil
}

// CheckSigner returns an error if the certificate may not sign SVIDs. It requires CA in the basic
// constraints, keyCertSign in a key usage if present, at most one URI, and no path if that is an
// ID. It does not verify the signature. It is more lenient than X509-SVID (3.2 and 4): many
// authorities of operators, and the samples of Istio, would be refused otherwise. Envoy and Go
// accept them.
func CheckSigner(c *x509.Certificate) error {
	usage, _ := findExtension(c, oidKeyUsage)
	id, err := certificateID(c)
	for _, rule := range [...]struct {
		broken bool
		reason string
	}{
		{!c.IsCA || !c.BasicConstraintsValid, "basic constraints lack CA"},
		{usage != nil && c.KeyUsage&x509.KeyUsageCertSign == 0, "key usage lacks keyCertSign"},
		{err == nil && id.Path() != "", "the ID of an authority has no path"},
		{errors.Is(err, errManyURIs), "it has more than one URI"},
	} {
		if rule.broken {
			return fmt.Errorf("the certificate of %q is not a valid CA certificate: %s", c.Subject, rule.reason)
		}
	}
	return nil
}

var (
	oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidKeyUsage       = asn1.ObjectIdentifier{2, 5, 29, 15}
)

// findExtension returns the value of an extension and whether it is critical. value is nil if there
// is none.
func findExtension(c *x509.Certificate, oid asn1.ObjectIdentifier) (value []byte, critical bool) {
	for _, e := range c.Extensions {
		if e.Id.Equal(oid) {
			return e.Value, e.Critical
		}
	}
	return nil, false
}

// certificateID returns the only URI of a certificate as an ID. It returns errNoURI or errManyURIs
// if there is not exactly one, and another error if that is no SPIFFE ID or the names are
// malformed. It decodes the extension itself: a parsed URL no longer distinguishes SPIFFE:// from
// spiffe://, but Envoy compares bytes.
func certificateID(c *x509.Certificate) (ID, error) {
	value, _ := findExtension(c, oidSubjectAltName)
	if value == nil {
		return ID{}, errNoURI
	}
	var names asn1.RawValue
	if rest, err := asn1.Unmarshal(value, &names); err != nil || len(rest) > 0 || names.Tag != asn1.TagSequence {
		return ID{}, errors.New("the certificate's subject alternative names are invalid")
	}
	const uri = 6 // GeneralName.uniformResourceIdentifier, RFC 5280, 4.2.1.6
	var found []string
	for rest := names.Bytes; len(rest) > 0; {
		var name asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &name); err != nil {
			return ID{}, fmt.Errorf("parse the certificate's subject alternative names: %w", err)
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
