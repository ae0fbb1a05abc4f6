package explain

import (
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// TestDescribeMatch: each field of a RouteMatch that narrows it is part of its description.
func TestDescribeMatch(t *testing.T) {
	for match, want := range map[string]string{
		``:                                "path begins with /",
		`case_sensitive { value: false }`: "path begins with / in any case",
		`grpc {}`:                         "path begins with /, request is gRPC",
		`headers { name: "h" present_match: false }`:                           "path begins with /, no h",
		`query_parameters { name: "q" }`:                                       "path begins with /, parameter q is there",
		`query_parameters { name: "q" present_match: true }`:                   "path begins with /, parameter q is there",
		`query_parameters { name: "q" present_match: false }`:                  "path begins with /, no parameter q",
		`query_parameters { name: "q" string_match { exact: "1" } }`:           "path begins with /, parameter q is 1",
		`cookies { name: "c" string_match { prefix: "a" } }`:                   "path begins with /, cookie c begins with a",
		`cookies { name: "c" string_match { exact: "a" } invert_match: true }`: "path begins with /, cookie c not is a",
		`tls_context {}`:                                                         "path begins with /, client certificate",
		`dynamic_metadata { filter: "f" }`:                                       "path begins with /, dynamic metadata",
		`filter_state { key: "k" string_match { exact: "v" } }`:                  "path begins with /, filter state",
		`runtime_fraction { default_value { numerator: 25 } }`:                   "path begins with /, 25% of requests",
		`runtime_fraction { default_value { numerator: 100 } runtime_key: "k" }`: "path begins with /",
	} {
		if got := DescribeMatch(parsed(t, new(routev3.RouteMatch), `prefix: "/" `+match)); got != want {
			t.Errorf("%s: got %q, want %q", match, got, want)
		}
	}
	fields := (&routev3.RouteMatch{}).ProtoReflect().Descriptor().Fields()
	if n := fields.Len(); n != 15 {
		t.Errorf("RouteMatch has %d fields: describe the new ones", n)
	}
}
