package spiffe

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Limits of SPIFFE-ID, 2.3, in bytes. The library does not check them.
const (
	MaxLength            = 2048
	maxTrustDomainLength = 255
)

// prefix is the scheme. It is case-sensitive, because Envoy compares IDs as bytes.
const prefix = "spiffe://"

// ID is a SPIFFE ID. The zero value is no ID. IDs are comparable with ==.
type ID struct{ id spiffeid.ID }

// Parse parses an ID without normalization: String returns the same bytes. The path may be missing.
// It returns an error if the text is not a valid SPIFFE ID, has upper case in its scheme or domain,
// or exceeds MaxLength or maxTrustDomainLength.
func Parse(text string) (ID, error) {
	if len(text) > MaxLength {
		return ID{}, fmt.Errorf("the SPIFFE ID has %d bytes, more than %d", len(text), MaxLength)
	}
	id, err := spiffeid.FromString(text)
	if err == nil {
		err = checkTrustDomainLength(id.TrustDomain().Name())
	}
	if err != nil {
		return ID{}, fmt.Errorf("SPIFFE ID %q: %w", text, err)
	}
	return ID{id}, nil
}

// CheckTrustDomain returns an error unless name is a valid trust domain: lower-case letters,
// digits, dots, dashes and underscores (SPIFFE-ID, 2.1). It refuses more than maxTrustDomainLength
// bytes.
func CheckTrustDomain(name string) error {
	domain, err := spiffeid.TrustDomainFromString(name)
	if err != nil {
		return err
	}
	if domain.Name() != name { // the library accepts the ID of a trust domain too
		return errors.New("want the name of a trust domain, not a SPIFFE ID")
	}
	return checkTrustDomainLength(name)
}

// checkTrustDomainLength returns an error if the name is longer than the standard allows.
func checkTrustDomainLength(name string) error {
	if len(name) > maxTrustDomainLength {
		return fmt.Errorf("the trust domain has %d bytes, more than %d", len(name), maxTrustDomainLength)
	}
	return nil
}

// String returns the ID as text, or "" for the zero value.
func (id ID) String() string { return id.id.String() }

// IsZero reports whether id is the zero value.
func (id ID) IsZero() bool { return id.id.IsZero() }

// TrustDomain returns the trust domain, or "" for the zero value.
func (id ID) TrustDomain() string { return id.id.TrustDomain().Name() }

// Path returns the path with its leading slash, or "" for the ID of a trust domain.
func (id ID) Path() string { return id.id.Path() }

// URL returns the ID as a URL for certificate templates. For the zero value, it is no valid ID.
func (id ID) URL() *url.URL { return id.id.URL() }
