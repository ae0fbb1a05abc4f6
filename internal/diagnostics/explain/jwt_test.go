package explain

import (
	"strings"
	"testing"

	jwtauthnv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
)

// TestUnknownProviderIsUnsupported: Envoy refuses a filter whose requirements name a provider that
// it does not have, so the path ends with a step that names the provider.
func TestUnknownProviderIsUnsupported(t *testing.T) {
	for _, requires := range []string{
		`provider_name: "other"`,
		`provider_and_audiences { provider_name: "other" audiences: "a" }`,
		`requires_any { requirements { provider_name: "known" } requirements { provider_name: "other" } }`,
	} {
		f := parsed(t, new(jwtauthnv3.JwtAuthentication),
			`providers { key: "known" value { issuer: "i" } } rules { requires { `+requires+` } }`)
		x := &exchange{
			walk:    &walk{Resources: &Resources{}, path: new(Path)},
			request: &Request{Method: "GET", Authority: "a", Path: "/"},
		}
		end := x.evaluateJWT("jwt", f)
		if len(end) != 1 || end[0].Kind != Unknown || !strings.Contains(x.path.Steps[0].String(), `provider: "other"`) {
			t.Errorf("%s: got %v, %v", requires, end, x.path)
		}
	}
}
