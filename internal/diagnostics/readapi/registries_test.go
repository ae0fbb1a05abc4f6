package readapi

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRegistries(t *testing.T) {
	a := newAPI(t)
	if w := get(a, "", "/registries"); w.Code != 200 || !strings.Contains(w.Body.String(), `"registries":[]`) {
		t.Errorf("without registries: %d %s", w.Code, w.Body)
	}
	a.Registries = func() []Registry {
		return []Registry{{Name: "ZooKeeper/zk:2181", State: RegistryStale, Error: "session expired"}}
	}
	const entry = `{"name":"ZooKeeper/zk:2181","state":"stale","error":"session expired"}`
	for namespace, want := range map[string]int{"": 200, "istio-system": 200, "shop": 403, "-": 401} {
		w := get(a, namespace, "/registries")
		if w.Code != want || strings.Contains(w.Body.String(), entry) != (want == 200) {
			t.Errorf("namespace %q: %d %s, want %d", namespace, w.Code, w.Body, want)
		}
	}
}

func TestSetUnreadable(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	since := now.Add(-time.Minute)
	for name, c := range map[string]struct {
		before, want Registry
		since        time.Time
		reason       string
	}{
		"readable":   {Registry{State: RegistrySynced}, Registry{State: RegistrySynced}, time.Time{}, ""},
		"unreadable": {Registry{State: RegistrySynced}, Registry{State: RegistryStale, LagSeconds: 60, Error: "refused"}, since, "refused"},
		"never read": {Registry{State: RegistryWaiting}, Registry{State: RegistryWaiting, Error: "refused"}, since, "refused"},
		"one kind denied from the start": {
			Registry{State: RegistrySynced}, Registry{State: RegistrySynced, Error: "forbidden"}, time.Time{}, "forbidden",
		},
	} {
		got := c.before
		got.setUnreadable(c.since, c.reason, now)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
