package authorization

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

// tokens are the tokens that cases send, by name.
type tokens struct {
	now  time.Time
	text map[string]string
	// claims are those of valid tokens, by their names.
	claims map[string]map[string]any
	// keys is the JWKS by which they are checked.
	keys string
}

func (t *tokens) named(name string) string { return t.text[name] }

// newTokens signs them.
func newTokens(t testing.TB) *tokens {
	t.Helper()
	key, other := pki.NewKey(), pki.NewKey()
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: string(jose.ES256)}}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	out := &tokens{now: now, text: map[string]string{}, claims: map[string]map[string]any{}, keys: string(set)}
	for name, claims := range map[string]map[string]any{
		"jason":   {"sub": "jason", "groups": []string{"readers", "writers"}, "scope": "read write", "email": "jason@example.com", "realm": map[string]any{"roles": []string{"chef"}, "name": "kitchen"}},
		"anna":    {"sub": "anna", "groups": []string{"readers"}, "level": 3, "admin": true, "group": "readers", "azp": "portal"},
		"shop":    {"sub": "bot", "aud": []string{"shop", "kitchen"}},
		"single":  {"sub": "bot", "aud": "shop"},
		"late":    {"sub": "jason", "exp": now.Add(-time.Hour).Unix()},
		"early":   {"sub": "jason", "nbf": now.Add(time.Hour).Unix()},
		"foreign": {"iss": "https://elsewhere.example.com", "sub": "jason"},
		"forged":  {"sub": "jason"},
		"tenant":  {"sub": "tenant/jason"},
	} {
		if claims["iss"] == nil {
			claims["iss"] = "https://issuer.example.com"
		}
		if claims["exp"] == nil {
			claims["exp"] = now.Add(time.Hour).Unix()
		}
		out.claims[name] = claims
		with := key
		if name == "forged" {
			with = other
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: with, KeyID: "1"}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(text)
		if err != nil {
			t.Fatal(err)
		}
		if out.text[name], err = signed.CompactSerialize(); err != nil {
			t.Fatal(err)
		}
	}
	out.text["garbage"] = "not.a"
	return out
}
