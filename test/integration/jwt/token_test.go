package jwt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer signs tokens with one key.
type issuer struct {
	t    testing.TB
	name string
	kid  string
	key  *ecdsa.PrivateKey
}

func newIssuer(t testing.TB, name, kid string) issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issuer{t, name, kid, key}
}

// keys returns the key set of the issuer, with the keys of others.
func (i issuer) keys(others ...issuer) string {
	i.t.Helper()
	set := jose.JSONWebKeySet{}
	for _, o := range append([]issuer{i}, others...) {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: &o.key.PublicKey, KeyID: o.kid, Algorithm: string(jose.ES256), Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		i.t.Fatal(err)
	}
	return string(text)
}

// claims of a token; nil removes a default claim.
type claims map[string]any

// token signs a token with the default claims, valid for an hour, changed by the given ones.
func (i issuer) token(c claims) string {
	i.t.Helper()
	all := claims{"iss": i.name, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, c)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	payload, err := json.Marshal(all)
	if err != nil {
		i.t.Fatal(err)
	}
	return i.sign(payload)
}

// sign signs any payload.
func (i issuer) sign(payload []byte) string {
	i.t.Helper()
	options := new(jose.SignerOptions).WithType("JWT").WithHeader("kid", i.kid)
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, options)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// unsigned returns a token with the algorithm "none".
func unsigned(issuer, signature string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode([]byte(`{"iss":"`+issuer+`","sub":"alice"}`)) + "." + signature
}

// tampered has another payload than the one that was signed.
func tampered(token, payload string) string {
	parts := strings.Split(token, ".")
	parts[1] = base64.RawURLEncoding.EncodeToString([]byte(payload))
	return strings.Join(parts, ".")
}
