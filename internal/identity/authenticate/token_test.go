package authenticate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/meshpilot/meshpilot/internal/base/fetch"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign makes a token with any claims.
func sign(t testing.TB, key any, algorithm jose.SignatureAlgorithm, id string, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// raw makes a signed token with any payload.
func raw(t testing.TB, key *ecdsa.PrivateKey, id, payload string) string {
	t.Helper()
	signer, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign([]byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// payloads have crashed other servers before authentication. T-JWT-NULL.
func payloads() []string {
	return []string{
		"null",
		"[]",
		"1",
		`""`,
		"{}",
		"",
		"true",
		`{"iss":null}`,
		`{"iss":1}`,
		`{"iss":["a"]}`,
		`{"iss":"a","iss":"b"}`,
		`{"aud":null,"exp":null,"sub":null}`,
		`{"exp":"never"}`,
		`{"exp":1e400}`,
		`{"exp":-1}`,
		`{"exp":99999999999999999999}`,
		`{"aud":{"a":1}}`,
		`{"sub":{"a":1}}`,
		"\x00",
		"\xff\xfe",
		"{",
		strings.Repeat("[", 3000),
		strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000),
	}
}

func TestWorkloadTokens(t *testing.T) {
	key, now := newKey(t), time.Now()
	w, err := NewWorkloadToken(&key.PublicKey, []string{"istio-ca"}, domains, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	made := func(namespace, account string, lifetime time.Duration, audiences ...string) string {
		text, err := SignWorkloadToken(key, namespace, account, audiences, now, lifetime)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	id, err := publicKeyID(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	claims := func(change func(map[string]any)) string {
		c := map[string]any{
			"iss": workloadIssuer, "aud": []string{"istio-ca"}, "sub": "system:serviceaccount:a:b",
			"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		}
		change(c)
		return sign(t, key, jose.ES256, id, c)
	}
	good := made("a", "b", time.Hour, "istio-ca")
	parts := strings.Split(good, ".")
	encodePart := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	none := encodePart(`{"alg":"none","kid":"`+id+`"}`) + "." + parts[1] + "."
	der, err := json.Marshal(jose.JSONWebKey{Key: &key.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	set := func(name string, value any) func(map[string]any) { return func(c map[string]any) { c[name] = value } }
	tests := map[string]struct{ token, want string }{
		"good":              {good, "spiffe://cluster.local/ns/a/sa/b"},
		"by claims":         {claims(func(map[string]any) {}), "spiffe://cluster.local/ns/a/sa/b"},
		"one audience":      {claims(set("aud", "istio-ca")), "spiffe://cluster.local/ns/a/sa/b"},
		"of several":        {made("a", "b", time.Hour, "other", "istio-ca"), "spiffe://cluster.local/ns/a/sa/b"},
		"for others":        {made("a", "b", time.Hour, "other"), ""},
		"for nobody":        {claims(func(c map[string]any) { delete(c, "aud") }), ""},
		"has ended":         {claims(set("exp", now.Add(-2*time.Minute).Unix())), ""},
		"without an end":    {claims(func(c map[string]any) { delete(c, "exp") }), ""},
		"not yet":           {claims(set("nbf", now.Add(2*time.Minute).Unix())), ""},
		"from the future":   {claims(set("iat", now.Add(2*time.Minute).Unix())), ""},
		"another issuer":    {claims(set("iss", "evil")), "none"},
		"no issuer":         {claims(func(c map[string]any) { delete(c, "iss") }), "none"},
		"no subject":        {claims(func(c map[string]any) { delete(c, "sub") }), ""},
		"a person":          {claims(set("sub", "kubernetes-admin")), ""},
		"another's key":     {sign(t, newKey(t), jose.ES256, id, map[string]any{"iss": workloadIssuer}), ""},
		"a key not known":   {sign(t, key, jose.ES256, "x", map[string]any{"iss": workloadIssuer}), ""},
		"no signature":      {none, "none"},
		"signature cut off": {parts[0] + "." + parts[1] + ".", ""},
		"payload changed": {
			parts[0] + "." + encodePart(`{"iss":"`+workloadIssuer+`","sub":"system:serviceaccount:x:y"}`) + "." + parts[2],
			"",
		},
		// The public key, which is not secret, used as an HMAC key.
		"shared key":        {sign(t, der, jose.HS256, id, map[string]any{"iss": workloadIssuer}), "none"},
		"the crash of 2022": {".bnVsbM.", "none"},
		"dots":              {"..", "none"},
		"one part":          {"x", "none"},
	}
	for _, subject := range []string{"", ":::", "system:serviceaccount", "system:serviceaccount:a", "system:serviceaccount:a:b:c", "system:serviceaccount::", "system:serviceaccount:a:b\x00", strings.Repeat("a:", 4000)} {
		tests[fmt.Sprintf("subject %.30q", subject)] = struct{ token, want string }{
			claims(set("sub", subject)),
			"",
		} // T-JWT-SUB
	}
	for name, tt := range tests {
		c, err := w.Authenticate(t.Context(), bearing(tt.token))
		check(t, name, c, err, tt.want)
		if err != nil && (strings.Contains(err.Error(), tt.token) && len(tt.token) > 20 || len(err.Error()) > 400) {
			t.Errorf("%s: the error quotes the token: %.300v", name, err)
		}
	}
	for _, p := range payloads() {
		c, err := w.Authenticate(t.Context(), bearing(raw(t, key, id, p)))
		if err == nil {
			t.Errorf("the payload %.50q is %v", p, c.ID)
		}
	}
	w.HasWorkload = func(a spiffe.Account) bool { return a.Name == "c" }
	c, err := w.Authenticate(t.Context(), bearing(good))
	check(t, "of no workload", c, err, "")
	now = now.Add(2 * time.Hour)
	c, err = w.Authenticate(t.Context(), bearing(good))
	check(t, "later", c, err, "")
	for _, bad := range []struct {
		namespace, name string
		lifetime        time.Duration
	}{{"", "b", time.Hour}, {"a", "", time.Hour}, {"a:b", "c", time.Hour}, {"a", "b/c", time.Hour}, {"a", "b", 0}, {"a", "b", -1}} {
		if _, err := SignWorkloadToken(
			key,
			bad.namespace,
			bad.name,
			[]string{"istio-ca"},
			now,
			bad.lifetime,
		); err == nil {
			t.Errorf("a token is signed for %v", bad)
		}
	}
}

func FuzzTokens(f *testing.F) {
	key := newKey(f)
	w, err := NewWorkloadToken(&key.PublicKey, []string{"istio-ca"}, domains, nil)
	if err != nil {
		f.Fatal(err)
	}
	id, err := publicKeyID(&key.PublicKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(".bnVsbM.", false)
	for _, p := range payloads() {
		f.Add(p, true)
	}
	chain := Chain{ClientCertificate{domains}, w, ForwardedCertificate{TrustDomains: domains}}
	f.Fuzz(func(t *testing.T, text string, signed bool) {
		if signed { // by the trusted key, so that the checks after the signature are reached too
			text = raw(t, key, id, text)
		}
		c, err := chain.Authenticate(t.Context(), bearing(text))
		if err == nil {
			if _, ok := c.ID.Account(); !ok || !signed {
				t.Fatalf("%q is %v", text, c.ID)
			}
		}
	})
}

// issuer serves keys, and counts how often.
type issuer struct {
	*httptest.Server
	asked atomic.Int64
	body  atomic.Value
}

func newIssuer(t *testing.T, keys ...jose.JSONWebKey) *issuer {
	i := new(issuer)
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys") // the test fails if it is not read
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		_, _ = fmt.Fprint(w, i.body.Load()) // as above
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	i.serve(t, keys...)
	return i
}

func (i *issuer) serve(t *testing.T, keys ...jose.JSONWebKey) {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	i.body.Store(string(text))
}

func TestOIDC(t *testing.T) {
	first, second := newKey(t), newKey(t)
	public := func(key *ecdsa.PrivateKey, id string) jose.JSONWebKey {
		return jose.JSONWebKey{Key: &key.PublicKey, KeyID: id, Algorithm: "ES256", Use: "sig"}
	}
	i := newIssuer(t, public(first, "1"))
	now := time.Now()
	client := fetch.NewClient(fetch.Options{Loopback: true})
	defer client.CloseIdleConnections()
	o := NewOIDC(
		OIDCRule{Issuer: i.URL, Audiences: []string{"istio-ca"}},
		domains,
		client,
		nil,
		func() time.Time { return now },
	)
	token := func(key *ecdsa.PrivateKey, id string) string {
		return sign(t, key, jose.ES256, id, jwt.Claims{
			Issuer:   i.URL,
			Subject:  "system:serviceaccount:a:b",
			Audience: jwt.Audience{"istio-ca"},
			Expiry:   jwt.NewNumericDate(now.Add(time.Hour)),
		})
	}
	try := func(name, token, want string) {
		t.Helper()
		c, err := o.Authenticate(t.Context(), bearing(token))
		check(t, name, c, err, want)
	}
	const ours = "spiffe://cluster.local/ns/a/sa/b"
	try("the first", token(first, "1"), ours)
	try("again", token(first, "1"), ours)
	if n := i.asked.Load(); n != 1 {
		t.Errorf("keys were fetched %d times, want once", n)
	}
	i.serve(t, public(second, "2"))
	for range 50 { // any client may send tokens with unknown keys
		try("a key that is not known", token(newKey(t), "9"), "")
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("keys were fetched %d times, want once in a while", n)
	}
	now = now.Add(retryInterval + time.Second)
	try("the second", token(second, "2"), ours)
	try("one that is no more", token(first, "1"), "")
	i.Close()
	now = now.Add(refreshInterval + time.Second)
	try("the issuer is away", token(second, "2"), ours)
	other := NewOIDC(OIDCRule{Issuer: i.URL, Audiences: []string{"istio-ca"}}, domains, client, nil, nil)
	if _, err := other.Authenticate(t.Context(), bearing(token(first, "1"))); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without any keys: %v", err)
	}
}

// TestKeySetsOfIssuers: the key set that an issuer serves may be invalid in any way.
func TestKeySetsOfIssuers(t *testing.T) {
	key := newKey(t)
	good, err := json.Marshal(jose.JSONWebKey{Key: &key.PublicKey, KeyID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	private, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		body string
		ok   bool
	}{
		"good":            {`{"keys":[` + string(good) + `]}`, true},
		"others among it": {`{"keys":[{"kty":"new"},null,` + string(good) + `,{}]}`, true},
		"nothing":         {"", false},
		"null":            {"null", false},
		"no keys":         {`{"keys":[]}`, false},
		"not JSON":        {"<html>", false},
		"a private key":   {`{"keys":[` + string(private) + `]}`, false},
		"a shared key":    {`{"keys":[{"kty":"oct","k":"AAAA","kid":"1"}]}`, false},
		"for encryption":  {`{"keys":[` + strings.Replace(string(good), "{", `{"use":"enc",`, 1) + `]}`, false},
		"101 keys":        {`{"keys":[` + strings.Repeat(string(good)+",", 100) + string(good) + `]}`, false},
		"more than 1 MB":  {`{"x":"` + strings.Repeat("a", 1<<20) + `","keys":[` + string(good) + `]}`, false},
	} {
		i := newIssuer(t)
		i.body.Store(tt.body)
		client := fetch.NewClient(fetch.Options{Loopback: true})
		o := NewOIDC(
			OIDCRule{Issuer: i.URL, Audiences: []string{"istio-ca"}, JWKSURI: i.URL + "/keys"},
			domains,
			client,
			nil,
			nil,
		)
		_, err := o.Authenticate(t.Context(), bearing(sign(t, key, jose.ES256, "1", jwt.Claims{
			Issuer:   i.URL,
			Subject:  "system:serviceaccount:a:b",
			Audience: jwt.Audience{"istio-ca"},
			Expiry:   jwt.NewNumericDate(time.Now().Add(time.Hour)),
		})))
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
		client.CloseIdleConnections()
	}
	for _, bad := range []string{"", "{}", `{"issuer":"a"}`, `{"audiences":["a"]}`, `{"issuer":"a","audiences":[]}`, "null"} {
		if _, err := ParseOIDCRule(bad); err == nil {
			t.Errorf("JWT_RULE %q is accepted, want an error", bad)
		}
	}
}
