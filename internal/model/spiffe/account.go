package spiffe

import (
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// Account is a service account. In Istio it identifies a workload by the ID
// spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/NAME.
type Account struct {
	TrustDomain, Namespace, Name string
}

// Account returns the service account that the ID names. It returns false if the path has another
// form than /ns/NAMESPACE/sa/NAME.
func (id ID) Account() (Account, bool) {
	namespace, ok := strings.CutPrefix(id.Path(), "/ns/")
	namespace, name, accounted := strings.Cut(namespace, "/sa/")
	if !ok || !accounted || strings.Contains(namespace, "/") || strings.Contains(name, "/") {
		return Account{}, false
	}
	return Account{id.TrustDomain(), namespace, name}, true
}

// AccountOf returns the service account of an identity in text form. It returns false if the
// text is not a valid SPIFFE ID, or not that of a service account.
func AccountOf(identity string) (Account, bool) {
	id, err := Parse(identity)
	if err != nil {
		return Account{}, false
	}
	return id.Account()
}

// ID returns the account's ID. It returns an error if a part is empty or has characters that are
// invalid in IDs, or if the domain or the ID is too long.
func (a Account) ID() (ID, error) {
	if err := CheckTrustDomain(a.TrustDomain); err != nil {
		return ID{}, err
	}
	for _, part := range [...]struct{ what, name string }{{"namespace", a.Namespace}, {"service account", a.Name}} {
		if err := spiffeid.ValidatePathSegment(part.name); err != nil {
			return ID{}, fmt.Errorf("%s %q: %w", part.what, part.name, err)
		}
	}
	return Parse(a.String())
}

// String returns the text of the account's ID, without validation. An invalid one matches no valid
// ID.
func (a Account) String() string {
	return prefix + a.TrustDomain + "/ns/" + a.Namespace + "/sa/" + a.Name
}

// ParseSubject parses the Kubernetes user name of a service account,
// "system:serviceaccount:NAMESPACE:NAME". It returns an error for all other users and for names
// that checkObjectName refuses.
func ParseSubject(subject string) (namespace, name string, err error) {
	parts := strings.Split(subject, ":")
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" {
		return "", "", fmt.Errorf(
			"subject %s is not a service account, want system:serviceaccount:NAMESPACE:NAME",
			quoteTruncated(subject))
	}
	for _, part := range parts[2:] {
		if err := checkObjectName(part); err != nil {
			return "", "", fmt.Errorf("%s: %w", quoteTruncated(subject), err)
		}
	}
	return parts[2], parts[3], nil
}

// maxNameLength is the maximum length of a Kubernetes object name (RFC 1123 subdomain).
const maxNameLength = 253

// checkObjectName returns an error unless name may be the name of a Kubernetes object. It must have
// 1 to 253 lower-case letters, digits, dashes and dots, with a letter or digit at both ends. The
// parts between dots are not checked.
func checkObjectName(name string) error {
	if name == "" || len(name) > maxNameLength {
		return fmt.Errorf("the name has %d bytes, want 1 to %d", len(name), maxNameLength)
	}
	for i := range len(name) {
		c := name[i]
		inner := i > 0 && i < len(name)-1
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !(inner && (c == '-' || c == '.')) {
			return fmt.Errorf("invalid character %q at position %d of the name", c, i)
		}
	}
	return nil
}

// quoteTruncated quotes untrusted text, shortened to 100 bytes. The full length is stated after it.
func quoteTruncated(text string) string {
	const maxLength = 100
	if len(text) > maxLength {
		return fmt.Sprintf("%q… (%d bytes)", text[:maxLength], len(text))
	}
	return fmt.Sprintf("%q", text)
}
