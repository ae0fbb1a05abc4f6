package discovery

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

func TestPlatformStatus(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one, three := 1, 3
	for name, c := range map[string]struct {
		status adapter.Status
		want   readapi.Registry
	}{
		"waiting": {
			adapter.Status{Unreadable: at.Add(-time.Minute), Error: "refused", Failures: 2},
			readapi.Registry{State: readapi.RegistryWaiting, LagSeconds: 60, Error: "refused", Failures: 2, Services: new(int), Instances: new(int)},
		},
		"synced": {
			adapter.Status{Synced: true, LastSync: at, Services: 1, Instances: 3, Held: 2},
			readapi.Registry{State: readapi.RegistrySynced, LastSync: &at, Services: &one, Instances: &three, Held: 2},
		},
		"stale": {
			adapter.Status{LastSync: at, LastChange: at, Unreadable: at.Add(-time.Hour), Services: 1, Instances: 3, Problems: 1},
			readapi.Registry{
				State: readapi.RegistryStale, LastSync: &at, LastChange: &at, LagSeconds: 3600, Services: &one, Instances: &three, Problems: 1,
			},
		},
	} {
		var got readapi.Registry
		setPlatformStatus(&got, c.status, at)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
