package jwt

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/envoy"
)

// TestChecks sends tokens, good and bad, to workloads that check them.
func TestChecks(t *testing.T) {
	envoy.RequireBinary(t)
	a, b, stranger := newIssuer(t, "a.example.com", "one"), newIssuer(t, "b.example.com", "two"), newIssuer(t, "a.example.com", "one")
	var scenes []scene
	for _, list := range [][]scene{oneIssuer(a, stranger), places(a), passedOn(a, b), twoIssuers(a, b), policies(a, b), keyless(a)} {
		scenes = append(scenes, list...)
	}
	addresses := start(t, scenes)
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for i, s := range scenes {
		for _, c := range s.calls {
			t.Run(s.name+"/"+c.name, func(t *testing.T) { c.make(t, client, addresses[i]) })
		}
	}
}

func bearer(token string) []string { return []string{"Authorization: Bearer " + token} }

// rule writes a rule with the keys in it.
func rule(i issuer, more string) string {
	if more != "" {
		more = ", " + more
	}
	return `{issuer: ` + i.name + `, jwks: '` + i.keys() + `'` + more + `}`
}

const denied = http.StatusUnauthorized

func oneIssuer(a, stranger issuer) []scene {
	good := a.token(nil)
	hour := func(n int) int64 { return time.Now().Add(time.Duration(n) * time.Hour).Unix() }
	return []scene{
		{name: "one issuer", rules: "{jwtRules: [" + rule(a, "") + "]}", calls: []call{
			{name: "no token"},
			{name: "good", headers: bearer(good), hidden: []string{"authorization"}},
			{name: "without end", headers: bearer(a.token(claims{"exp": nil}))},
			{name: "expired", headers: bearer(a.token(claims{"exp": hour(-1)})), status: denied, body: "Jwt is expired"},
			{name: "not yet valid", headers: bearer(a.token(claims{"nbf": hour(1)})), status: denied, body: "Jwt not yet valid"},
			{name: "of another issuer", headers: bearer(a.token(claims{"iss": "other"})), status: denied, body: "Jwt issuer is not configured"},
			{name: "of no issuer", headers: bearer(a.token(claims{"iss": nil})), status: denied},
			{name: "signed by another", headers: bearer(stranger.token(nil)), status: denied, body: "Jwt verification fails"},
			{name: "another payload", headers: bearer(tampered(good, `{"iss":"a.example.com","sub":"root"}`)), status: denied},
			{name: "cut off", headers: bearer(good[:len(good)-5]), status: denied},
			{name: "without signature", headers: bearer(good[:strings.LastIndex(good, ".")+1]), status: denied},
			{name: "alg none", headers: bearer(unsigned(a.name, "")), status: denied},
			{name: "alg none, and something", headers: bearer(unsigned(a.name, "c2ln")), status: denied},
			{name: "payload null", headers: bearer(a.sign([]byte("null"))), status: denied},
			{name: "payload of a list", headers: bearer(a.sign([]byte("[]"))), status: denied},
			{name: "payload of a number", headers: bearer(a.sign([]byte("1"))), status: denied},
			{name: "payload empty", headers: bearer(a.sign([]byte(""))), status: denied},
			{name: "payload without anything", headers: bearer(a.sign([]byte("{}"))), status: denied},
			{name: "deep payload", headers: bearer(a.sign([]byte(`{"iss":"a.example.com","x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}"))), status: denied},
			{name: "the infamous one", headers: bearer(".bnVsbM."), status: denied},
			{name: "no token at all", headers: bearer("hello"), status: denied},
			{name: "empty", headers: []string{"Authorization: Bearer "}, status: 0},
			{name: "another scheme", headers: []string{"Authorization: Basic YTpi"}, seen: []string{"authorization: Basic YTpi"}},
			{name: "oversized", headers: bearer(a.token(claims{"x": strings.Repeat("x", 100<<10)})), status: http.StatusRequestHeaderFieldsTooLarge},
			{name: "large", headers: bearer(a.token(claims{"x": strings.Repeat("x", 20<<10)}))},
			{name: "the customary parameter", path: "/p?access_token=" + good + "&b=c", seen: []string{"GET /p?b=c"}},
			{name: "a bad one there", path: "/p?access_token=" + stranger.token(nil), status: denied},
			{name: "two tokens, one bad", path: "/?access_token=" + stranger.token(nil), headers: bearer(good), status: denied},
			{name: "two in one header, the second bad", headers: append(bearer(good), bearer(stranger.token(nil))...), status: denied},
			{name: "preflight", method: http.MethodOptions, headers: []string{"Origin: http://a", "Access-Control-Request-Method: GET"}},
		}},
		{name: "audiences", rules: "{jwtRules: [" + rule(a, "audiences: [web, app]") + "]}", calls: []call{
			{name: "one of them", headers: bearer(a.token(claims{"aud": "app"}))},
			{name: "among others", headers: bearer(a.token(claims{"aud": []string{"x", "web"}}))},
			{name: "another", headers: bearer(a.token(claims{"aud": "x"})), status: http.StatusForbidden, body: "Audiences in Jwt are not allowed"},
			{name: "none", headers: bearer(good), status: http.StatusForbidden},
		}},
	}
}

func places(a issuer) []scene {
	good := a.token(nil)
	from := "{jwtRules: [" + rule(a, `fromHeaders: [{name: x-token, prefix: "Token "}, {name: x-plain}], fromParams: [token], fromCookies: [session]`) + "]}"
	return []scene{
		{name: "places", rules: from, calls: []call{
			{name: "a header with a prefix", headers: []string{"x-token: Token " + good}, hidden: []string{"x-token"}},
			{name: "a header", headers: []string{"x-plain: " + good}, hidden: []string{"x-plain"}},
			{name: "a parameter", path: "/?a=b&token=" + good, seen: []string{"GET /?a=b"}},
			{name: "a cookie", headers: []string{"Cookie: a=b; session=" + good}},
			{name: "bad in a header", headers: []string{"x-token: Token " + good[1:]}, status: denied},
			{name: "bad in a parameter", path: "/?token=x", status: denied},
			{name: "bad in a cookie", headers: []string{"Cookie: session=x"}, status: denied},
			{name: "the default header is not read then", headers: bearer("x"), seen: []string{"authorization: Bearer x"}},
		}},
		{name: "forwarded", rules: "{jwtRules: [" + rule(a, `forwardOriginalToken: true, fromHeaders: [{name: authorization, prefix: "Bearer "}], fromParams: [token]`) + "]}", calls: []call{
			{name: "a header", headers: bearer(good), seen: []string{"authorization: Bearer " + good}},
			{name: "a parameter", path: "/?token=" + good, seen: []string{"GET /?token=" + good}},
		}},
	}
}

func passedOn(a, b issuer) []scene {
	full := a.token(claims{"n": 3, "yes": true, "realm": claims{"group": "dev"}, "list": []string{"x", "y"}})
	payload := base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"a.example.com","sub":"x"}`))
	forged := []string{"x-sub: root", "x-n: 9", "x-group: admin", "x-payload: forged", "x-b: forged", "x-other: kept"}
	output := "outputPayloadToHeader: x-payload, outputClaimToHeaders: [{header: x-sub, claim: sub}, {header: x-n, claim: 'n'}, {header: x-yes, claim: 'yes'}, {header: x-group, claim: realm.group}, {header: x-list, claim: list}, {header: x-none, claim: none}]"
	names := []string{"x-sub", "x-n", "x-group", "x-payload", "x-b"}
	places := "{jwtRules: [" + rule(a, `outputClaimToHeaders: [{header: x-sub, claim: sub}], outputPayloadToHeader: x-payload, fromHeaders: [{name: x-t, prefix: "T "}], fromParams: [token], fromCookies: [session]`) + "]}"
	copies := []string{"x-sub: root", "X-Sub: admin", "x-payload: forged"}
	two := "{jwtRules: [" + rule(a, output) + "," + rule(b, "outputClaimToHeaders: [{header: x-b, claim: sub}], fromHeaders: [{name: x-token}]") + "]}"
	return []scene{
		{name: "claims to headers", rules: two, calls: []call{
			{name: "of all kinds", headers: bearer(full), hidden: []string{"x-none"}, seen: []string{
				"x-sub: alice", "x-n: 3", "x-yes: true", "x-group: dev", "x-list: " + base64.StdEncoding.EncodeToString([]byte(`["x","y"]`)),
			}},
			{name: "the payload", headers: bearer(a.sign([]byte(`{"iss":"a.example.com","sub":"x"}`))), seen: []string{"x-payload: " + payload, "x-sub: x"}},
			{name: "forged, without a token", headers: forged, hidden: names, seen: []string{"x-other: kept"}},
			{name: "forged in other letters", headers: []string{"X-SUB: root", "X-Group: admin"}, hidden: names},
			{name: "forged, with a token", headers: append(bearer(full), forged...), seen: []string{"x-sub: alice", "x-n: 3", "x-group: dev"}, hidden: []string{"x-b"}},
			{name: "forged, with another issuer's token", headers: append([]string{"x-token: " + b.token(nil)}, forged...), seen: []string{"x-b: alice"}, hidden: []string{"x-sub", "x-n", "x-group", "x-payload"}},
			{name: "forged, in a preflight", method: http.MethodOptions, headers: append([]string{"Origin: http://a", "Access-Control-Request-Method: GET"}, forged...), hidden: names},
		}},
		{name: "claims to headers, from anywhere", rules: places, calls: []call{
			{name: "forged, without a token", headers: copies, hidden: []string{"x-sub", "x-payload"}},
			{name: "forged, with a token elsewhere", headers: append(bearer(full), copies...), hidden: []string{"x-sub", "x-payload"}},
			{name: "forged, with a header", headers: append([]string{"x-t: T " + full}, copies...), only: []string{"x-sub: alice"}},
			{name: "forged, with a parameter", path: "/?token=" + full, headers: copies, only: []string{"x-sub: alice"}},
			{name: "forged, with a cookie", headers: append([]string{"Cookie: session=" + full}, copies...), only: []string{"x-sub: alice"}},
			{name: "forged, with a bad cookie", headers: append([]string{"Cookie: session=x"}, copies...), status: denied},
		}},
	}
}

func twoIssuers(a, b issuer) []scene {
	return []scene{
		{name: "two issuers in one place", rules: "{jwtRules: [" + rule(a, "") + "," + rule(b, "") + "]}", calls: []call{
			{name: "none"},
			{name: "the first's", headers: bearer(a.token(nil))},
			{name: "the second's", headers: bearer(b.token(nil))},
			{name: "the first's name, the second's key", headers: bearer(b.token(claims{"iss": a.name})), status: denied},
			{name: "another's", headers: bearer(b.token(claims{"iss": "c"})), status: denied},
			{name: "expired", headers: bearer(a.token(claims{"exp": 1})), status: denied},
		}},
		{name: "two issuers in two places", rules: "{jwtRules: [" + rule(a, "fromHeaders: [{name: x-a}]") + "," + rule(b, "fromHeaders: [{name: x-b}]") + "]}", calls: []call{
			{name: "none"},
			{name: "both", headers: []string{"x-a: " + a.token(nil), "x-b: " + b.token(nil)}},
			{name: "one", headers: []string{"x-b: " + b.token(nil)}},
			{name: "one in the other's place", headers: []string{"x-b: " + a.token(nil)}, status: denied},
			{name: "one that is bad", headers: []string{"x-b: x"}, status: denied},
			{name: "one that is bad, in the first's place", headers: []string{"x-a: x"}, status: denied},
		}},
	}
}

func policies(a, b issuer) []scene {
	allow := func(when string) string {
		return "kind: AuthorizationPolicy\nmetadata: {name: allow, namespace: default}\nspec: {rules: [" + when + "]}"
	}
	const forbidden = http.StatusForbidden
	both := "{jwtRules: [" + rule(a, "spaceDelimitedClaims: [roles]") + "," + rule(b, "") + "]}"
	return []scene{
		{name: "any token", rules: both, policies: allow(`{from: [{source: {requestPrincipals: ["*"]}}]}`), calls: []call{
			{name: "none", status: forbidden},
			{name: "a good one", headers: bearer(a.token(nil))},
			{name: "a bad one", headers: bearer("x"), status: denied},
			{name: "one without subject", headers: bearer(a.token(claims{"sub": nil})), status: forbidden},
		}},
		{name: "principals", rules: both, policies: allow(`{from: [{source: {requestPrincipals: [a.example.com/alice, "b.example.com/*"]}}]}`), calls: []call{
			{name: "one of them", headers: bearer(a.token(nil))},
			{name: "another of the issuer", headers: bearer(a.token(claims{"sub": "bob"})), status: forbidden},
			{name: "any of the other issuer", headers: bearer(b.token(claims{"sub": "bob"}))},
		}},
		{name: "audience and presenter", rules: both, policies: allow(`{when: [{key: request.auth.audiences, values: [web]}, {key: request.auth.presenter, values: [cli]}]}`), calls: []call{
			{name: "both", headers: bearer(a.token(claims{"aud": []string{"x", "web"}, "azp": "cli"}))},
			{name: "another presenter", headers: bearer(a.token(claims{"aud": "web", "azp": "x"})), status: forbidden},
			{name: "another audience", headers: bearer(a.token(claims{"aud": "x", "azp": "cli"})), status: forbidden},
		}},
		{name: "claims", rules: both, policies: allow(`{when: [{key: "request.auth.claims[groups]", values: [dev, "ops-*"]}, {key: "request.auth.claims[realm][roles]", notValues: [guest]}]}`), calls: []call{
			{name: "one text", headers: bearer(a.token(claims{"groups": "dev"}))},
			{name: "among a list", headers: bearer(a.token(claims{"groups": []string{"x", "ops-1"}, "realm": claims{"roles": []string{"user"}}}))},
			{name: "none of them", headers: bearer(a.token(claims{"groups": []string{"x"}})), status: forbidden},
			{name: "no such claim", headers: bearer(a.token(nil)), status: forbidden},
			{name: "one that is excluded", headers: bearer(a.token(claims{"groups": "dev", "realm": claims{"roles": []string{"user", "guest"}}})), status: forbidden},
			{name: "no token", status: forbidden},
		}},
		{name: "words", rules: both, policies: allow(`{when: [{key: "request.auth.claims[scope]", values: [write]}, {key: "request.auth.claims[roles]", values: [admin]}]}`), calls: []call{
			{name: "among words", headers: bearer(a.token(claims{"scope": "read write", "roles": "user admin"}))},
			{name: "part of a word", headers: bearer(a.token(claims{"scope": "read writer", "roles": "user admin"})), status: forbidden},
			{name: "of another issuer's rule", headers: bearer(b.token(claims{"scope": "write", "roles": "user admin"})), status: forbidden},
		}},
		{name: "a DENY policy with a condition on tokens", rules: both, policies: "kind: AuthorizationPolicy\nmetadata: {name: deny, namespace: default}\nspec: {action: DENY, rules: [{from: [{source: {notRequestPrincipals: [\"*\"]}}], to: [{operation: {paths: [/admin]}}]}]}", calls: []call{
			{name: "without a token", path: "/admin", status: forbidden},
			{name: "with one", path: "/admin", headers: bearer(a.token(nil))},
			{name: "elsewhere", path: "/x"},
		}},
		{name: "no rules", policies: allow(`{from: [{source: {requestPrincipals: ["*"]}}]}`), calls: []call{
			{name: "a token that no rule checks", headers: bearer(a.token(nil)), status: forbidden},
		}},
	}
}

// keyless are rules whose keys are unavailable: every request with such a token is refused, other
// requests are not affected.
func keyless(a issuer) []scene {
	return []scene{
		{name: "keys that were never got", rules: `{jwtRules: [{issuer: a.example.com, jwksUri: "https://keys.example.com"}]}`, calls: []call{
			{name: "a token", headers: bearer(a.token(nil)), status: denied, body: "Jwks doesn't have any valid public key"},
			{name: "an unsigned one", headers: bearer(unsigned(a.name, "")), status: denied},
			{name: "none"},
		}},
		{name: "keys that were never got, beside others", rules: `{jwtRules: [{issuer: b.example.com, jwksUri: "https://keys.example.com"}, ` + rule(a, "") + `]}`, calls: []call{
			{name: "a token of the others", headers: bearer(a.token(nil))},
			{name: "one without", headers: bearer(a.token(claims{"iss": "b.example.com"})), status: denied},
			{name: "none"},
		}},
	}
}
