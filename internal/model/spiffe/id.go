package spiffe

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Limits of SPIFFE-ID, 2.3, in bytes.
const (
	MaxLength            = 2048
	maxTrustDomainLength = 255
)

// prefix is the scheme. It is case-sensitive, because Envoy compares IDs as bytes.
const prefix = "spiffe://"

// ID is a SPIFFE ID. The zero value is no ID. IDs are comparable with ==.
type ID struct{ trustDomain, path string }

// Parse parses an ID without normalization: String returns the same bytes. It returns an error if
// the text is not a valid SPIFFE ID.
func Parse(text string) (ID, error) {
	if len(text) > MaxLength {
		return ID{}, fmt.Errorf("the SPIFFE ID has %d bytes, more than %d", len(text), MaxLength)
	}
	rest, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return ID{}, fmt.Errorf("SPIFFE ID %q: does not begin with %s", text, prefix)
	}
	domain, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		domain, path = rest[:i], rest[i:]
	}
	if err := CheckTrustDomain(domain); err != nil {
		return ID{}, fmt.Errorf("SPIFFE ID %q: %w", text, err)
	}
	if err := checkPath(path); err != nil {
		return ID{}, fmt.Errorf("SPIFFE ID %q: %w", text, err)
	}
	return ID{domain, path}, nil
}

// CheckTrustDomain returns an error unless name is a valid trust domain: lower-case letters,
// digits, dots, dashes and underscores (SPIFFE-ID, 2.1).
func CheckTrustDomain(name string) error {
	switch {
	case name == "":
		return errors.New("the trust domain is empty")
	case len(name) > maxTrustDomainLength:
		return fmt.Errorf("the trust domain has %d bytes, more than %d", len(name), maxTrustDomainLength)
	}
	for i := range len(name) {
		if c := name[i]; c < 'a' || c > 'z' {
			if !isPunctuationOrDigit(c) {
				return fmt.Errorf(
					"the trust domain has %q: want lower-case letters, digits, dots, dashes and underscores",
					c,
				)
			}
		}
	}
	return nil
}

// checkPath returns an error unless the path is empty or valid: segments of letters, digits, dots,
// dashes and underscores, none of them empty, "." or ".." (SPIFFE-ID, 2.2).
func checkPath(path string) error {
	if path == "" {
		return nil
	}
	for segment := range strings.SplitSeq(path[1:], "/") {
		if err := checkSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

// checkSegment returns an error unless the path segment is valid.
func checkSegment(segment string) error {
	switch segment {
	case "":
		return errors.New("the path has an empty segment, or ends in a slash")
	case ".", "..":
		return fmt.Errorf("the path has the segment %q", segment)
	}
	for i := range len(segment) {
		if c := segment[i]; !isLetter(c) && !isPunctuationOrDigit(c) {
			return fmt.Errorf("the path has %q: want letters, digits, dots, dashes and underscores", c)
		}
	}
	return nil
}

// isLetter reports whether c is an ASCII letter.
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isPunctuationOrDigit reports whether c is a digit, dot, dash or underscore.
func isPunctuationOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
}

// String returns the ID as text, or "" for the zero value.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	return prefix + id.trustDomain + id.path
}

// IsZero reports whether id is the zero value.
func (id ID) IsZero() bool { return id == ID{} }

// TrustDomain returns the trust domain.
func (id ID) TrustDomain() string { return id.trustDomain }

// Path returns the path with its leading slash, or "" for the ID of a trust domain.
func (id ID) Path() string { return id.path }

// URL returns the ID as a URL for certificate templates. For the zero value, it is no valid ID.
func (id ID) URL() *url.URL { return &url.URL{Scheme: "spiffe", Host: id.trustDomain, Path: id.path} }
