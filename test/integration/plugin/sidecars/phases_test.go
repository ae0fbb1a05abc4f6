package sidecars

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// phases: headers that a plugin adds are visible to policies after it, and not to those before it.
// AUTHN is before tokens are validated, AUTHZ between that and authorization, STATS and the default
// after both (WasmPlugin.phase).
func phases(t *testing.T, w *world) {
	const policy = `
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: %s, namespace: default}
spec: {selector: {matchLabels: {app: server}}, action: DENY, rules: [{%s}]}
`
	w.writeConfig(t, "roles", fmt.Sprintf(policy, "roles", `when: [{key: "request.headers[x-role]", values: [guest]}]`))
	for _, c := range []struct {
		phase string
		want  int
	}{{"phase: AUTHN, ", http.StatusForbidden}, {"phase: STATS, ", http.StatusOK}, {"phase: AUTHZ, ", http.StatusForbidden}, {"", http.StatusOK}} {
		// The other header shows that the plugin runs.
		w.plugin(t, "role", "server", c.phase+"url: URL/requests/x-role/guest")
		w.plugin(t, "mark", "server", c.phase+"priority: 1, url: URL/answers/x-wasm/"+mark(c.phase))
		w.eventually(t, "a DENY by a header, added in "+c.phase, c.want, mark(c.phase))
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w.writeConfig(t, "tokens", `
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: default}
spec: {selector: {matchLabels: {app: server}}, jwtRules: [{issuer: mesh, forwardOriginalToken: true, jwks: '`+keys(t, key)+`'}]}
`)
	w.writeConfig(t, "roles", fmt.Sprintf(policy, "roles", `from: [{source: {notRequestPrincipals: ["mesh/caller"]}}]`))
	for _, c := range []struct {
		phase string
		want  int
	}{{"phase: AUTHN, ", http.StatusOK}, {"phase: AUTHZ, ", http.StatusForbidden}, {"phase: STATS, ", http.StatusForbidden}} {
		w.plugin(t, "role", "server", c.phase+"url: URL/requests/authorization/Bearer+"+token(t, key))
		w.plugin(t, "mark", "server", c.phase+"priority: 1, url: URL/answers/x-wasm/"+mark(c.phase))
		var marks []string
		if c.phase != "phase: STATS, " { // which answers of policies do not pass
			marks = []string{mark(c.phase)}
		}
		w.eventually(t, "a token, added in "+c.phase, c.want, marks...)
	}
	for _, name := range []string{"role", "mark", "roles", "tokens"} {
		w.writeConfig(t, name, "")
	}
	w.eventually(t, "without plugins again", http.StatusOK)
}

func mark(phase string) string {
	if phase == "" {
		return "last"
	}
	return phase[len("phase: ") : len(phase)-len(", ")]
}

func keys(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func token(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: "mesh", Subject: "caller", Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
