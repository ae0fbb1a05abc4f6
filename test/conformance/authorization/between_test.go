package authorization

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// together are configurations of a workload's tokens and of its callers, each written in one file:
// the rules and the policy.
var together = map[string][2]string{ //nolint:gochecknoglobals // a table
	"nothing":                    {"", ""},
	"rules alone":                {tokensOf("issuer"), ""},
	"one issuer":                 {tokensOf("issuer"), policyOf("ALLOW", `{from: [{source: {requestPrincipals: ["https://issuer.example.com/*"]}}]}`)},
	"another issuer":             {tokensOf("elsewhere"), policyOf("ALLOW", `{from: [{source: {requestPrincipals: ["https://elsewhere.example.com/*"]}}]}`)},
	"any token":                  {tokensOf("issuer"), policyOf("ALLOW", `{from: [{source: {requestPrincipals: ["*"]}}]}`)},
	"any token of another":       {tokensOf("elsewhere"), policyOf("ALLOW", `{from: [{source: {requestPrincipals: ["*"]}}]}`)},
	"no call without a token":    {tokensOf("issuer"), policyOf("DENY", `{from: [{source: {notRequestPrincipals: ["*"]}}]}`)},
	"the same with another":      {tokensOf("elsewhere"), policyOf("DENY", `{from: [{source: {notRequestPrincipals: ["*"]}}]}`)},
	"a claim":                    {tokensOf("issuer"), policyOf("ALLOW", `{when: [{key: "request.auth.claims[groups]", values: [writers]}]}`)},
	"not a claim":                {tokensOf("issuer"), policyOf("DENY", `{when: [{key: "request.auth.claims[groups]", notValues: [writers]}]}`)},
	"nobody":                     {tokensOf("issuer"), policyOf("ALLOW")},
	"those alone without tokens": {tokensOf("issuer"), policyOf("ALLOW", `{from: [{source: {notRequestPrincipals: ["*"]}}]}`)},
}

// issuerOf maps the names of valid tokens to their issuers.
var issuerOf = map[string]string{ //nolint:gochecknoglobals // a table
	"jason": "https://issuer.example.com", "anna": "https://issuer.example.com", "foreign": "https://elsewhere.example.com",
}

func tokensOf(issuer string) string {
	return `kind: RequestAuthentication
metadata: {name: web, namespace: shop}
spec: {jwtRules: [{issuer: "https://` + issuer + `.example.com", jwks: 'JWKS'}]}
`
}

func policyOf(action string, rules ...string) string {
	return "kind: AuthorizationPolicy\nmetadata: {name: web, namespace: shop}\nspec: {action: " + action + ", rules: [" + strings.Join(rules, ", ") + "]}\n"
}

// TestNothingPassesInBetween: a RequestAuthentication and an AuthorizationPolicy that change
// together may be applied one after the other, because rules wait for keys. In neither order is a
// call allowed that is allowed neither before nor after, unless its token is valid under the
// current rules: then the other policy decides by the token's claims.
func TestNothingPassesInBetween(t *testing.T) {
	tokens, calls := newTokens(t), []string{"", "jason", "anna", "foreign", "late", "forged", "garbage"}
	judged := map[string]string{}
	passes := func(rules, policy, token string) bool {
		key := strings.Join([]string{rules, policy, token}, "\x00")
		if judged[key] == "" {
			judged[key] = verdictUnder(t, tokens, rules, policy, token)
		}
		return judged[key] == "allow"
	}
	between, opened, met := 0, 0, 0
	for before, old := range together {
		for after, next := range together {
			for _, mixed := range [][2]string{{old[0], next[1]}, {next[0], old[1]}} {
				if slices.Contains([][2]string{old, next}, mixed) {
					continue
				}
				for _, token := range calls {
					between++
					if !passes(mixed[0], mixed[1], token) {
						continue
					}
					opened++
					switch {
					case passes(old[0], old[1], token) || passes(next[0], next[1], token):
					case issuerOf[token] != "" && strings.Contains(mixed[0], issuerOf[token]):
						met++
					default:
						t.Errorf("from %q to %q: with the token %q a call passes in between, by\n%s%s", before, after, token, mixed[0], mixed[1])
					}
				}
			}
		}
	}
	if between < 500 || opened == 0 || opened == between {
		t.Errorf("%d calls in between, %d passed: the test is not effective", between, opened)
	}
	t.Logf("%d calls in between, %d of them passed; %d with good tokens of rules that had met another's policy", between, opened, met)
}

// verdictUnder returns the result of a call with a token under some rules and a policy.
func verdictUnder(t *testing.T, tokens *tokens, rules, policy, token string) string {
	t.Helper()
	objects := []string{"kind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.96.40.1, selector: {app: web}, ports: [{name: http, port: 8001}]}\n"}
	for _, o := range []string{rules, policy} {
		if o != "" {
			objects = append(objects, o)
		}
	}
	s := &scene{
		name: "between", objects: []byte(strings.Join(objects, "---\n")),
		workloads: []*workload{{Name: "web", Namespace: "shop", Labels: map[string]string{"app": "web"}, Address: netip.MustParseAddr("127.66.40.1")}},
	}
	s.withKeys(tokens)
	s.generate(t, "/dev/null")
	c := &testCase{scene: s, Name: fmt.Sprint("token ", token), To: "web:8001", Call: "GET /", Token: token}
	verdict, _ := verdictOf(c.explained(t, tokens))
	return verdict
}
