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

// ForwardedCertificate authenticates clients by the certificate that a gateway forwards in the
// header x-forwarded-client-cert. It accepts the header only from peers in TrustedNetworks; without
// any, it ignores the header, even from loopback.
type ForwardedCertificate struct {
	TrustDomains TrustDomains
	// TrustedNetworks are the networks of trusted gateways (TRUSTED_GATEWAY_CIDR).
	TrustedNetworks []netip.Prefix
}

var _ Authenticator = ForwardedCertificate{}

// String returns "x-forwarded-client-cert".
func (ForwardedCertificate) String() string { return "x-forwarded-client-cert" }

// Authenticate returns the SPIFFE ID, with HasCertificate set, of the client that the last gateway
// reported: the last element of the last header value. It returns ErrNoCredentials if there is no
// header or the peer is not in TrustedNetworks. It returns another error for invalid syntax, or
// unless that element has exactly one URI, with a path, in a trust domain of the mesh.
func (f ForwardedCertificate) Authenticate(_ context.Context, r Request) (Caller, error) {
	values := r.Header("x-forwarded-client-cert")
	if len(values) == 0 ||
		!slices.ContainsFunc(f.TrustedNetworks, func(p netip.Prefix) bool { return p.Contains(r.Peer) }) {
		return Caller{}, ErrNoCredentials
	}
	// Earlier values come from hops further away; only the last hop is trusted.
	elements, err := parseXFCC(values[len(values)-1])
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
		return Caller{}, fmt.Errorf("%s has no path or is not in a trust domain of the mesh", id)
	}
	return Caller{ID: id, HasCertificate: true}, nil
}

const maxXFCCBytes = 64 << 10

// parseXFCC returns one map per hop of the header, with lists of values by key in lower case.
// Quoted values may contain separators, and quotes escaped by a backslash (Envoy's documentation of
// x-forwarded-client-cert). It returns an error for invalid syntax and oversized headers.
func parseXFCC(header string) ([]map[string][]string, error) {
	if len(header) > maxXFCCBytes {
		return nil, fmt.Errorf("the header has %d bytes, more than %d", len(header), maxXFCCBytes)
	}
	var elements []map[string][]string
	element := map[string][]string{}
	for rest := header; ; {
		key, after, ok := strings.Cut(rest, "=")
		if key = strings.TrimSpace(key); !ok || key == "" || strings.ContainsAny(key, `,;"`) {
			return nil, errors.New("invalid element: want key=value")
		}
		value, after, err := parseXFCCValue(after)
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

// parseXFCCValue parses a value, quoted or not, at the beginning of text. An unquoted value ends
// before the next comma or semicolon and is trimmed; in quotes, a backslash escapes the next
// character. rest is what follows: empty, or it begins with a separator. It returns an error for an
// unterminated quote or text after a quote.
func parseXFCCValue(text string) (value, rest string, err error) {
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
			return "", "", errors.New("text after a quoted value")
		default:
			return b.String(), text[i+1:], nil
		}
	}
	return "", "", errors.New("unterminated quoted value")
}
