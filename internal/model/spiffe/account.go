package spiffe

import (
	"fmt"
	"strings"
)

// Account is a service account, which is what a workload's ID names in Istio: spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/NAME.
type Account struct {
	TrustDomain, Namespace, Name string
}

// Account gives the service account that an ID names; false if it has another form, with more segments or with fewer.
func (id ID) Account() (Account, bool) {
	namespace, ok := strings.CutPrefix(id.path, "/ns/")
	namespace, name, accounted := strings.Cut(namespace, "/sa/")
	if !ok || !accounted || strings.Contains(namespace, "/") || strings.Contains(name, "/") {
		return Account{}, false
	}
	return Account{id.trustDomain, namespace, name}, true
}

// ID gives the account's ID. It fails where a part is empty or has what IDs must not have.
func (a Account) ID() (ID, error) {
	if err := CheckTrustDomain(a.TrustDomain); err != nil {
		return ID{}, err
	}
	for _, part := range [...]struct{ what, name string }{{"namespace", a.Namespace}, {"service account", a.Name}} {
		if err := checkSegment(part.name); err != nil {
			return ID{}, fmt.Errorf("%s %q: %w", part.what, part.name, err)
		}
	}
	return Parse(a.String())
}

// String gives the text that the account's ID has, also where that is not a valid one: as the name of whose answers are
// believed it does no harm, for nobody has it.
func (a Account) String() string {
	return prefix + a.TrustDomain + "/ns/" + a.Namespace + "/sa/" + a.Name
}

// ParseSubject reads the name that Kubernetes gives a service account, "system:serviceaccount:NAMESPACE:NAME", and nothing else:
// neither names of people nor such with parts that no namespace or account can have.
func ParseSubject(subject string) (namespace, name string, err error) {
	parts := strings.Split(subject, ":")
	if len(parts) != 4 || parts[0] != "system" || parts[1] != "serviceaccount" {
		return "", "", fmt.Errorf("%s is not that of a service account, system:serviceaccount:NAMESPACE:NAME", quoted(subject))
	}
	for _, part := range parts[2:] {
		if err := checkName(part); err != nil {
			return "", "", fmt.Errorf("%s: %w", quoted(subject), err)
		}
	}
	return parts[2], parts[3], nil
}

// maxName is the longest name that an object of Kubernetes may have (RFC 1123 subdomain).
const maxName = 253

// checkName says what is wrong with the name of an object of Kubernetes: it is made of lower-case letters, digits, dashes and
// dots, and begins and ends with a letter or digit.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name of %d bytes: want 1 to %d", len(name), maxName)
	}
	for i := range len(name) {
		c := name[i]
		inner := i > 0 && i < len(name)-1
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && !(inner && (c == '-' || c == '.')) {
			return fmt.Errorf("%q at place %d of a name", c, i)
		}
	}
	return nil
}

// quoted shows text that somebody unknown has sent: not more than a line of it.
func quoted(text string) string {
	const most = 100
	if len(text) > most {
		return fmt.Sprintf("%q… (%d bytes)", text[:most], len(text))
	}
	return fmt.Sprintf("%q", text)
}
