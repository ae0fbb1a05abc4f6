package translate

import (
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/snapshot/view"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestScopesOfCredentialServer checks that proxies with and without an SDS server of the user share
// everything but clusters and gateway listeners.
func TestScopesOfCredentialServer(t *testing.T) {
	m := fixture.New(t, nil, nil)
	for _, proxy := range []string{"type: sidecar", "type: router"} {
		without := view.KeyFor(m.Snapshot(), fixture.Proxy(t, []byte(proxy)))
		with := view.KeyFor(m.Snapshot(), fixture.Proxy(t, []byte(proxy+"\ncredentialServer: true")))
		without.Policies.Authorization, with.Policies.Authorization = "default/a;", "default/a;"
		want := []string{"clusters", "resolved clusters"}
		if proxy == "type: router" {
			want = append(want, "SNI-DNAT clusters", "gateway listeners")
		}
		var differ []string
		for _, s := range []struct {
			name  string
			scope func(view.Key) view.Key
		}{
			{"clusters", clusterScope},
			{"resolved clusters", resolvedScope},
			{"SNI-DNAT clusters", sniDNATScope},
			{"gateway listeners", gatewayScope},
			{"outbound listeners", listenerScope},
			{"extensions", extensionScope},
			{"policies", policyScope},
			{"endpoints", endpointScope},
			{"routes", routeScope},
		} {
			if s.scope(with) != s.scope(without) {
				differ = append(differ, s.name)
			}
		}
		if !slices.Equal(differ, want) {
			t.Errorf("%s: not shared are %q, want %q", proxy, differ, want)
		}
	}
}
