package route

import (
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestReach: short names mean services of the caller's own mesh, not those of a cluster set.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		host   mesh.Hostname
		suffix string
		want   shortNames
	}{
		{"web.shop.svc.cluster.local", "shop.svc.cluster.local", ownNamespace},
		{"web.shop.svc.cluster.local", "other.svc.cluster.local", otherNamespace},
		{"web.shop.svc.clusterset.local", "shop.svc.cluster.local", fullName},
		{"web.example.com", "shop.svc.cluster.local", fullName},
		{"web.shop.svc.cluster.local", "", fullName},
	} {
		if got := reachOf(c.host, c.suffix); got != c.want {
			t.Errorf("%s from %q: %d, want %d", c.host, c.suffix, got, c.want)
		}
	}
}
