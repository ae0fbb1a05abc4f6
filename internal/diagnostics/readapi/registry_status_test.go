package readapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/pkg/adapter"
)

func TestPlatformStatus(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	one, three := 1, 3
	for name, c := range map[string]struct {
		status adapter.Status
		want   Registry
	}{
		"waiting": {
			adapter.Status{Unreadable: at.Add(-time.Minute), Error: "refused", Failures: 2},
			Registry{State: RegistryWaiting, LagSeconds: 60, Error: "refused", Failures: 2, Services: new(int), Instances: new(int)},
		},
		"synced": {
			adapter.Status{Synced: true, LastSync: at, Services: 1, Instances: 3, Held: 2},
			Registry{State: RegistrySynced, LastSync: &at, Services: &one, Instances: &three, Held: 2},
		},
		"stale": {
			adapter.Status{LastSync: at, LastChange: at, Unreadable: at.Add(-time.Hour), Services: 1, Instances: 3, Problems: 1},
			Registry{
				State: RegistryStale, LastSync: &at, LastChange: &at, LagSeconds: 3600, Services: &one, Instances: &three, Problems: 1,
			},
		},
	} {
		var got Registry
		setPlatformStatus(&got, c.status, at)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// source is a source without numbers.
type source string

func (s source) Name() string { return string(s) }

func TestRegistriesOf(t *testing.T) {
	clusters := []debug.Cluster{
		{ID: "local", SyncStatus: "synced"}, // a source as well
		{ID: "east", SyncStatus: "synced", Services: 4},
		{ID: "west", SyncStatus: "timeout", Waiting: "refused"},
	}
	got := RegistriesOf(&[]source{"file:mesh", "Kubernetes/local"}, []string{"Kubernetes/local"}, clusters, time.Time{})
	four := 4
	want := []Registry{
		{Name: "file:mesh", State: RegistrySynced}, {Name: "Kubernetes/local", State: RegistryWaiting},
		{Name: "Kubernetes/east", State: RegistrySynced, Services: &four},
		{Name: "Kubernetes/west", State: RegistryWaiting, Error: "refused", Services: new(int)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
