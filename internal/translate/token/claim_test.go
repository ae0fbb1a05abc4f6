package token

import (
	"slices"
	"testing"
)

func TestRoutingClaim(t *testing.T) {
	for name, want := range map[string][]string{
		"@request.auth.claims.group":                 {"group"},
		"@request.auth.claims.a.b":                   {"a", "b"},
		"@request.auth.claims[a][b]":                 {"a", "b"},
		"@request.auth.claims[https://a.com/groups]": {"https://a.com/groups"},
		"@Request.Auth.Claims[A]":                    {"A"},

		"@request.auth.claims": nil, "@request.auth.claims.": nil, "@request.auth.claims[]": nil, "@request.auth.claimsx": nil,
		"@request.auth.claims[a": nil, "x-header": nil, "": nil,
	} {
		if got, ok := RoutingClaim(name); ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", name, got, ok, want)
		}
	}
}
