package view_test

import (
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestPoliciesInside: if policies cannot be sent by ECDS, or an EnvoyFilter matches them in
// listeners, they are in the listeners.
func TestPoliciesInside(t *testing.T) {
	const filter = `
kind: EnvoyFilter
metadata: {name: more}
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match: {listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: NAME}}}}}
    patch: {operation: INSERT_BEFORE, value: {name: a, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer, max_request_bytes: 1}}}
`
	none := fixture.New(t, nil, nil).Snapshot()
	for _, c := range []struct {
		name       string
		extensions []string
		snapshot   *snapshot.Snapshot
		want       bool
	}{
		{"an Envoy that does not report its extensions", nil, none, false},
		{"one that has the filter", []string{"envoy.filters.http.cors", "envoy.filters.http.filter_chain", "envoy.filters.http.router"}, none, false},
		{"an older one", []string{"envoy.filters.http.cors", "envoy.filters.http.router"}, none, true},
		{"a patch by the router", nil, fixture.New(t, []byte(strings.ReplaceAll(filter, "NAME", "envoy.filters.http.router")), nil).Snapshot(), false},
		{"a patch by what policies make", nil, fixture.New(t, []byte(strings.ReplaceAll(filter, "NAME", "envoy.filters.http.rbac")), nil).Snapshot(), true},
	} {
		p := fixture.Proxy(t, []byte("{}"))
		p.Type, p.Extensions = mesh.SidecarProxy, c.extensions
		if got := view.KeyFor(c.snapshot, p).PoliciesInside; got != c.want {
			t.Errorf("%s: inside %t", c.name, got)
		}
	}
}
