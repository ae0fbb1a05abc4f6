package snapshot

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

func TestSeeksPolicies(t *testing.T) {
	for _, c := range []struct {
		patch string
		want  bool
	}{
		{`{applyTo: HTTP_FILTER, match: {listener: {filterChain: {filter: {subFilter: {name: envoy.filters.http.router}}}}}, patch: {operation: INSERT_BEFORE}}`, false},
		{`{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST}}`, false},
		{`{applyTo: HTTP_FILTER, match: {listener: {filterChain: {filter: {subFilter: {name: envoy.filters.http.rbac}}}}}, patch: {operation: INSERT_AFTER}}`, true},
		{`{applyTo: HTTP_FILTER, match: {listener: {filterChain: {filter: {subFilter: {name: envoy.filters.http.jwt_authn}}}}}, patch: {operation: MERGE}}`, true},
		{`{applyTo: HTTP_FILTER, patch: {operation: ADD, filterClass: AUTHZ}}`, true},
		{`{applyTo: HTTP_FILTER, patch: {operation: MERGE}}`, true},
		{`{applyTo: HTTP_FILTER, patch: {operation: ADD, filterClass: STATS}}`, false},
		{`{applyTo: NETWORK_FILTER, match: {listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager}}}}, patch: {operation: MERGE}}`, false},
	} {
		text, err := yaml.YAMLToJSON([]byte(c.patch))
		if err != nil {
			t.Fatal(err)
		}
		p := new(networking.EnvoyFilter_EnvoyConfigObjectPatch)
		if err := protojson.Unmarshal(text, p); err != nil {
			t.Fatal(err)
		}
		if got := patchesSecurityFilters(p); got != c.want {
			t.Errorf("%s: %t", c.patch, got)
		}
	}
}
