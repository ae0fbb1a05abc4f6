package routetest

import (
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/prototext"
)

// That answers are Envoy's own, the tests of package route see to: they ask both.

func parsed(t *testing.T, text string) *routev3.RouteConfiguration {
	t.Helper()
	c := new(routev3.RouteConfiguration)
	if err := prototext.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRoute(t *testing.T) {
	const config = `
		ignore_port_in_host_matching: %IGNORE%
		virtual_hosts { name: "exact" domains: "a.example.com" domains: "[::1]" routes { name: "r" match { prefix: "/" } route { cluster: "c" } } }
		virtual_hosts { name: "suffix" domains: "*.example.com" domains: "*-b.example.com" }
		virtual_hosts { name: "prefix" domains: "a.*" routes { match { path: "/x" } redirect { host_redirect: "h" port_redirect: 1 } } }
		virtual_hosts { name: "port" domains: "a.example.com:81" routes { match { prefix: "/" } direct_response { status: 404 } } }`
	tests := []struct{ request, ignore, want string }{
		{"GET http://A.example.com:80/", "true", "exact, r: c"},
		{"GET http://a.example.com:81/", "true", "exact, r: c"},
		{"GET http://a.example.com:81/", "false", "port, #0: 404 at once"},
		{"GET http://[::1]:81/", "true", "exact, r: c"},
		{"GET http://b.example.com/", "true", "404, no route in suffix"},
		{"GET http://a.example.org/x", "true", "prefix, #0: MOVED_PERMANENTLY to host h, port 1"},
		{"GET http://a.example.org/ host=x.y", "true", "404, no virtual host"},
	}
	for _, tt := range tests {
		r, err := Parse(tt.request)
		if err != nil {
			t.Fatal(err)
		}
		a, err := Route(parsed(t, strings.Replace(config, "%IGNORE%", tt.ignore, 1)), r)
		if err != nil || a.String() != tt.want {
			t.Errorf("%s: %q, error %v; want %q", tt.request, a, err, tt.want)
		}
	}
}

func TestUnknownMatchersAreErrors(t *testing.T) {
	r, err := Parse("GET http://a/?q=1 x=1")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range []string{
		`connect_matcher {}`,
		`safe_regex { regex: "(" }`,
		`prefix: "/" headers { name: "x" range_match { start: 1 end: 2 } }`,
		`prefix: "/" headers { name: "x" string_match { suffix: "a" } }`,
		`prefix: "/" query_parameters { name: "q" }`,
	} {
		c := parsed(t, `virtual_hosts { name: "v" domains: "*" routes { match { `+match+` } } }`)
		if a, err := Route(c, r); err == nil {
			t.Errorf("%s: %s", match, a)
		}
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "GET", "GET ://", "GET http://a/ header"} {
		if r, err := Parse(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, r)
		}
	}
}
