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

// prefix is the scheme. The standard wants it as it is here: who lower-cased first and compared later would disagree with
// Envoy, which compares bytes.
const prefix = "spiffe://"

// ID is a SPIFFE ID. The zero value is none. IDs may be compared with ==.
type ID struct{ trustDomain, path string }

// Parse reads an ID. What it takes it gives back byte for byte by String: nothing is normalised.
func Parse(text string) (ID, error) {
	if len(text) > MaxLength {
		return ID{}, fmt.Errorf("SPIFFE ID of %d bytes: more than %d", len(text), MaxLength)
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

// CheckTrustDomain says what is wrong with the name of a trust domain: it has lower-case letters, digits, dots, dashes and
// underscores (SPIFFE-ID, 2.1).
func CheckTrustDomain(name string) error {
	switch {
	case name == "":
		return errors.New("the trust domain is empty")
	case len(name) > maxTrustDomainLength:
		return fmt.Errorf("the trust domain has %d bytes: more than %d", len(name), maxTrustDomainLength)
	}
	for i := range len(name) {
		if c := name[i]; c < 'a' || c > 'z' {
			if !isPunctuationOrDigit(c) {
				return fmt.Errorf("the trust domain has %q: want lower-case letters, digits, dots, dashes and underscores", c)
			}
		}
	}
	return nil
}

// checkPath says what is wrong with a path: it is empty, or segments of letters, digits, dots, dashes and underscores, none of
// them empty, "." or ".." (SPIFFE-ID, 2.2).
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

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isPunctuationOrDigit(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_'
}

// String gives the ID as text, "" for none.
func (id ID) String() string {
	if id.IsZero() {
		return ""
	}
	return prefix + id.trustDomain + id.path
}

// IsZero says that it is no ID.
func (id ID) IsZero() bool { return id == ID{} }

// TrustDomain gives the authority part.
func (id ID) TrustDomain() string { return id.trustDomain }

// Path gives what comes behind the trust domain: "" for the trust domain itself, else it begins with a slash.
func (id ID) Path() string { return id.path }

// URL gives the ID as certificates have it.
func (id ID) URL() *url.URL { return &url.URL{Scheme: "spiffe", Host: id.trustDomain, Path: id.path} }
