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

// maxKeys bounds a set.
const maxKeys = 100

// errNone says that a document is one, and of no use.
var errNone = errors.New("there is no key that signatures of tokens can be checked with")

// Published gives the keys of a document that anybody can read. Symmetric keys, and those whose private half is there, are left out:
// whoever reads the document can sign with them.
func Published(document []byte) (string, error) { return canonical(document, false) }

// Written gives the keys of a document that an operator wrote into a rule (JWTRule.jwks). Symmetric keys count, and of others the
// public half.
func Written(document []byte) (string, error) { return canonical(document, true) }

// key is one key by its members.
type key map[string]json.RawMessage

func (k key) text(member string) string {
	var s string
	if json.Unmarshal(k[member], &s) != nil {
		return ""
	}
	return s
}

func canonical(document []byte, secrets bool) (string, error) {
	keys, err := read(document)
	if err != nil {
		return "", err
	}
	if len(keys) > maxKeys {
		return "", fmt.Errorf("%d keys: more than %d", len(keys), maxKeys)
	}
	var list []key
	for _, k := range keys {
		if k = usable(k, secrets); k != nil {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return "", errNone
	}
	texts := make([]string, 0, len(list))
	for _, k := range list {
		text, err := json.Marshal(k) // members sorted
		if err != nil {
			return "", fmt.Errorf("encode a key: %w", err)
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return `{"keys":[` + strings.Join(slices.Compact(texts), ",") + `]}`, nil
}

// read gives the keys of a document of any of the forms.
func read(document []byte) ([]key, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(document, &members); err != nil {
		return nil, errors.New("it is not a JSON Web Key Set")
	}
	list, isSet := members["keys"]
	_, isKey := members["kty"]
	switch {
	case isSet:
		var raw []json.RawMessage
		if err := json.Unmarshal(list, &raw); err != nil {
			return nil, errors.New("it is not a JSON Web Key Set: keys is no list")
		}
		keys := make([]key, 0, len(raw))
		for _, r := range raw {
			var k key
			if json.Unmarshal(r, &k) == nil { // one that is no key spoils none of the others
				keys = append(keys, k)
			}
		}
		return keys, nil
	case isKey:
		return []key{members}, nil
	default:
		return certificates(members)
	}
}

// members are those that say what a public, or symmetric, key is (RFC 7518, section 6). x5c and others that repeat it are of no use.
func members() []string { return []string{"kty", "kid", "alg", "crv", "n", "e", "x", "y", "k"} }

// usable gives what of a key is needed, nil if Envoy could not use it, or nobody should.
func usable(k key, secrets bool) key {
	_, private := k["d"]
	symmetric := k.text("kty") == "oct"
	if use := k.text("use"); use != "" && use != "sig" || !secrets && (private || symmetric) {
		return nil
	}
	out := key{}
	for _, m := range members() {
		if k.text(m) != "" && (m != "k" || symmetric) {
			text := k.text(m)
			if len(m) == 1 { // encoded numbers, which some pad, and Envoy does not take padded
				text = strings.TrimRight(text, "=")
			}
			out[m], _ = json.Marshal(text) // texts always encode
		}
	}
	text, err := json.Marshal(out)
	var parsed jose.JSONWebKey
	if err != nil || parsed.UnmarshalJSON(text) != nil || !symmetric && !parsed.Valid() || !taken(parsed.Key, out) {
		return nil
	}
	return out
}

// minRSA is the size in bits of the smallest RSA key that counts: smaller ones can be factored. go-jose has the bound on the other side.
const minRSA = 1024

// taken says whether Envoy takes a key, which it does not if the algorithm is none of the key's type (RFC 7518, section 3.1).
func taken(parsed any, k key) bool {
	alg := k.text("alg")
	of := func(prefixes ...string) bool {
		return alg == "" || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(alg, p) })
	}
	switch p := parsed.(type) {
	case *rsa.PublicKey:
		return of("RS", "PS") && p.N.BitLen() >= minRSA && p.N.Bit(0) == 1 && p.E >= 3 && p.E < 1<<31 && p.E%2 == 1
	case *ecdsa.PublicKey:
		algorithms := map[string]string{"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
		return of(algorithms[k.text("crv")])
	case ed25519.PublicKey:
		return alg == "" || alg == "EdDSA"
	case []byte:
		return of("HS")
	default:
		return false
	}
}

// certificates gives the keys of certificates in PEM by the keys' names.
func certificates(members map[string]json.RawMessage) ([]key, error) {
	var keys []key
	for name, raw := range members {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil, errors.New("it is not a JSON Web Key Set")
		}
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return nil, errors.New("it is not a JSON Web Key Set")
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the certificate of key %.100q: %w", name, err)
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
			return nil, fmt.Errorf("the key of certificate %.100q: %w", name, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}
