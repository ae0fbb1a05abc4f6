package authenticate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

// Forwarded believes what gateways say of the certificates that their clients showed (the header x-forwarded-client-cert): such
// gateways as are in trusted networks. With none everything is ignored, also from the machine itself.
type Forwarded struct {
	TrustDomains TrustDomains
	// Trusted are the networks whose gateways are believed. TRUSTED_GATEWAY_CIDR.
	Trusted []netip.Prefix
}

var _ Authenticator = Forwarded{}

// String names the kind.
func (Forwarded) String() string { return "x-forwarded-client-cert" }

// Authenticate gives the ID that the gateway in front of the control plane has seen.
func (f Forwarded) Authenticate(_ context.Context, r Request) (Caller, error) {
	values := r.Header("x-forwarded-client-cert")
	if len(values) == 0 || !slices.ContainsFunc(f.Trusted, func(p netip.Prefix) bool { return p.Contains(r.Peer) }) {
		return Caller{}, ErrNoCredentials
	}
	// Those before the last are of hops further away, and only the last hop is trusted.
	elements, err := parseForwarded(values[len(values)-1])
	if err != nil {
		return Caller{}, err
	}
	uris := elements[len(elements)-1]["uri"]
	if len(uris) != 1 {
		return Caller{}, fmt.Errorf("%d URIs, want one", len(uris))
	}
	id, err := spiffe.Parse(uris[0])
	if err != nil {
		return Caller{}, err
	}
	if id.Path() == "" || !slices.Contains(f.TrustDomains(), id.TrustDomain()) {
		return Caller{}, fmt.Errorf("%s is of a foreign trust domain, or names one alone", id)
	}
	return Caller{ID: id, HasCertificate: true}, nil
}

const maxForwarded = 64 << 10

// parseForwarded takes the header apart: elements for each hop, each of pairs like URI=spiffe://…, whose keys it gives in lower
// case. Values with separators in them are in quotes, in which a backslash lets a quote stand for itself (Envoy's
// documentation of x-forwarded-client-cert).
func parseForwarded(header string) ([]map[string][]string, error) {
	if len(header) > maxForwarded {
		return nil, fmt.Errorf("a header of %d bytes", len(header))
	}
	var elements []map[string][]string
	element := map[string][]string{}
	for rest := header; ; {
		key, after, ok := strings.Cut(rest, "=")
		if key = strings.TrimSpace(key); !ok || key == "" || strings.ContainsAny(key, `,;"`) {
			return nil, errors.New("a header without key=value")
		}
		value, after, err := forwardedValue(after)
		if err != nil {
			return nil, err
		}
		key = strings.ToLower(key)
		element[key] = append(element[key], value)
		if after == "" || after[0] == ',' {
			elements, element = append(elements, element), map[string][]string{}
		}
		if after == "" {
			return elements, nil
		}
		rest = after[1:]
	}
}

// forwardedValue gives a value, and what comes behind it: nothing, or something that begins with a separator.
func forwardedValue(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, ",;")
		if end < 0 {
			end = len(text)
		}
		return strings.TrimSpace(text[:end]), text[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c != '"':
			b.WriteByte(c)
		case i+1 < len(text) && text[i+1] != ',' && text[i+1] != ';':
			return "", "", errors.New("a value that goes on behind its quotes")
		default:
			return b.String(), text[i+1:], nil
		}
	}
	return "", "", errors.New("quotes without an end")
}
