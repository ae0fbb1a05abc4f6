package conform

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// testPassThrough checks that events of another source, mixed with the Objects, pass unchanged and
// in order, and runs checkBeforeSynced. It is skipped unless the Fixture sets PassesThrough.
func (s suite) testPassThrough(t *testing.T) {
	if !s.PassesThrough {
		t.Skip("the registry has no input that others share")
	}
	others := mesh.Batch{
		{
			Source: "x",
			Config: &config.Config{
				Meta: config.Meta{Key: config.Key{Kind: api.VirtualService, Namespace: "default", Name: "a"}},
				Spec: &networking.VirtualService{},
			},
		},
		{Source: "x", Settings: &mesh.Settings{}},
		{
			Source: "x",
			Op:     mesh.Delete,
			Config: &config.Config{
				Meta: config.Meta{Key: config.Key{Kind: api.Secret, Namespace: "default", Name: "b"}},
			},
		},
		{Source: "x", Problems: &mesh.Problems{Scope: "a file", List: []config.Problem{{Reason: "r"}}}},
		{Source: "x", Service: mesh.Service{ServiceKey: mesh.ServiceKey{Host: "another.registry"}}.Sealed()},
		{Source: "x", Op: mesh.Synced},
		{
			Source: "x",
			Config: &config.Config{
				Meta: config.Meta{Key: config.Key{Kind: api.DestinationRule, Namespace: "default", Name: "c"}},
				Spec: &networking.DestinationRule{},
			},
		},
	}
	var batch mesh.Batch
	for i := range max(len(others), len(s.Objects)) {
		if i < len(s.Objects) {
			batch = append(batch, s.Objects[i])
		}
		if i < len(others) {
			batch = append(batch, others[i])
		}
	}
	_, subject := s.Start(t, nil)
	said := subject(batch)
	passed := withoutEvents(said, func(e mesh.Event) bool { return e.Source != "x" })
	if len(passed) != len(others) {
		t.Fatalf("%d of %d events passed through", len(passed), len(others))
	}
	for i := range passed {
		if passed[i] != others[i] {
			t.Errorf("event %d came out as another, or out of order", i)
		}
	}
	s.checkBeforeSynced(t, batch, said)
}

// checkBeforeSynced checks that the results of the objects before Synced in batch are emitted
// before Synced in said. It ignores Problems and events of the source "x".
func (s suite) checkBeforeSynced(t *testing.T, batch, said mesh.Batch) {
	until := func(b mesh.Batch) mesh.Batch {
		for i, e := range b {
			if e.Op == mesh.Synced {
				return b[:i]
			}
		}
		return b
	}
	objects := withoutEvents(until(batch), func(e mesh.Event) bool { return e.Source == "x" })
	got := Fold(withoutEvents(until(said), func(e mesh.Event) bool { return e.Source == "x" }))
	want := s.start(t, objects...).state
	want.Synced = false
	if diff := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool {
		return strings.HasSuffix(p.String(),
			"Problems")
	}, cmp.Ignore())); diff != "" {
		t.Errorf("not all is said before Synced (-want +got):\n%s", diff)
	}
}
