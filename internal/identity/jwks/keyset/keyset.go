package keyset

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// maxKeys is the maximum number of keys in a document.
const maxKeys = 100

// errNoKey means that a document is valid but has no usable key.
var errNoKey = errors.New("the key set has no key for token signatures")

// ParsePublished returns the keys of a public document in canonical form. It drops symmetric keys
// and keys with a private half, because every reader of the document could sign with them. It
// returns an error if the document is invalid, has more than maxKeys, or no key remains.
func ParsePublished(document []byte) (string, error) { return canonicalize(document, false) }

// ParseInline returns the keys that an operator wrote into a rule (JWTRule.jwks) in canonical form.
// It keeps symmetric keys, and only the public half of others. It returns an error if the document
// is invalid, has more than maxKeys, or no key remains.
func ParseInline(document []byte) (string, error) { return canonicalize(document, true) }

// key holds the JSON members of one key.
type key map[string]json.RawMessage

// stringMember returns a member of type string, or "" if it is missing or of another type.
func (k key) stringMember(member string) string {
	var s string
	if json.Unmarshal(k[member], &s) != nil {
		return ""
	}
	return s
}

// canonicalize parses a document and encodes its distinct usable keys, sorted, as a JSON Web Key
// Set. With secrets, symmetric keys and the public half of private keys are usable too (usableKey).
// It returns an error if the document is invalid, has more than maxKeys, or no usable key.
func canonicalize(document []byte, secrets bool) (string, error) {
	keys, err := parseDocument(document)
	if err != nil {
		return "", err
	}
	if len(keys) > maxKeys {
		return "", fmt.Errorf("the key set has %d keys, more than %d", len(keys), maxKeys)
	}
	var list []key
	for _, k := range keys {
		if k = usableKey(k, secrets); k != nil {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return "", errNoKey
	}
	texts := make([]string, 0, len(list))
	for _, k := range list {
		text, err := json.Marshal(k) // with sorted members
		if err != nil {
			return "", fmt.Errorf("encode a key: %w", err)
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return `{"keys":[` + strings.Join(slices.Compact(texts), ",") + `]}`, nil
}

// parseDocument returns the keys of a document in any of the supported forms: a key set, one key,
// or certificates by key ID. It skips list elements that are not JSON objects, and returns an error
// for anything else.
func parseDocument(document []byte) ([]key, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return nil, errors.New("the document is not a JSON Web Key Set")
	}
	list, isSet := members["keys"]
	_, isKey := members["kty"]
	switch {
	case isSet:
		var raw []json.RawMessage
		if err := json.Unmarshal(list, &raw); err != nil {
			return nil, errors.New("the document is not a JSON Web Key Set: keys is not a list")
		}
		keys := make([]key, 0, len(raw))
		for _, r := range raw {
			var k key
			if json.Unmarshal(r, &k) == nil { // skip invalid elements
				keys = append(keys, k)
			}
		}
		return keys, nil
	case isKey:
		return []key{members}, nil
	default:
		return keysFromCertificates(members)
	}
}

// keyMembers returns the members that define a public or symmetric key (RFC 7518, section 6).
// Others, such as x5c, are redundant.
func keyMembers() []string { return []string{"kty", "kid", "alg", "crv", "n", "e", "x", "y", "k"} }

// usableKey returns the supported members of a key. It returns nil if Envoy does not support the
// key or its use is not signing, and if secrets is false also for symmetric and private keys.
// Padding of numbers is removed.
func usableKey(k key, secrets bool) key {
	_, private := k["d"]
	symmetric := k.stringMember("kty") == "oct"
	if use := k.stringMember("use"); use != "" && use != "sig" || !secrets && (private || symmetric) {
		return nil
	}
	out := key{}
	for _, m := range keyMembers() {
		if k.stringMember(m) != "" && (m != "k" || symmetric) {
			text := k.stringMember(m)
			if len(m) == 1 { // Envoy rejects padded numbers
				text = strings.TrimRight(text, "=")
			}
			out[m], _ = json.Marshal(text) // strings always encode
		}
	}
	text, err := json.Marshal(out)
	var parsed jose.JSONWebKey
	if err != nil || parsed.UnmarshalJSON(text) != nil || !symmetric && !parsed.Valid() ||
		!isSupported(parsed.Key, out) {
		return nil
	}
	return out
}

// minRSABits is the minimum size of RSA keys, because smaller ones can be factored. go-jose has the
// upper bound.
const minRSABits = 1024

// isSupported reports whether Envoy accepts the key: its algorithm must match its type (RFC 7518,
// section 3.1), and RSA parameters must be valid. A key without an algorithm is accepted for its
// type.
func isSupported(parsed any, k key) bool {
	alg := k.stringMember("alg")
	of := func(prefixes ...string) bool {
		return alg == "" || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(alg, p) })
	}
	switch p := parsed.(type) {
	case *rsa.PublicKey:
		return of("RS", "PS") && p.N.BitLen() >= minRSABits && p.N.Bit(0) == 1 && p.E >= 3 && p.E < 1<<31 && p.E%2 == 1
	case *ecdsa.PublicKey:
		algorithms := map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
		return of(algorithms[k.stringMember("crv")])
	case ed25519.PublicKey:
		return alg == "" || alg == "EdDSA"
	case []byte:
		return of("HS")
	default:
		return false
	}
}

// keysFromCertificates returns the public keys of PEM certificates by key ID. It skips keys that
// are neither RSA nor ECDSA, and returns an error if a member is no certificate. The error contains
// nothing of the document. The keys are in no particular order.
func keysFromCertificates(members map[string]json.RawMessage) ([]key, error) {
	var keys []key
	for name, raw := range members {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil, errors.New("the document is not a JSON Web Key Set")
		}
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return nil, errors.New("the document is not a JSON Web Key Set")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errors.New("the document has an invalid certificate") // err may quote the certificate
		}
		switch c.PublicKey.(type) {
		case *rsa.PublicKey, *ecdsa.PublicKey:
		default:
			continue
		}
		encoded, err := (&jose.JSONWebKey{Key: c.PublicKey, KeyID: name}).MarshalJSON()
		var k key
		if err == nil {
			err = json.Unmarshal(encoded, &k)
		}
		if err != nil {
			return nil, errors.New("the document has a certificate with an unsupported key")
		}
		keys = append(keys, k)
	}
	return keys, nil
}
