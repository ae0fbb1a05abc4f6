package namespaces

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// FuzzFilter: after any sequence of selectors and labels, the objects that have passed are those
// that pass a new Filter that is sent the final state at once (differential).
func FuzzFilter(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7}, "mesh", "on")
	f.Add([]byte{9, 0, 9, 1, 9, 2, 0, 0, 17, 33}, "", "")
	f.Add([]byte{2, 10, 18, 26, 1, 9}, "a/b/c", "x y")
	f.Fuzz(func(t *testing.T, steps []byte, key, value string) {
		if len(steps) > 64 {
			return
		}
		filter, through := New(Options{}), map[config.Key]bool{}
		namespaces, objects := map[string]mesh.Event{}, map[config.Key]mesh.Event{}
		settings := mesh.Event{Settings: &mesh.Settings{Mesh: &meshconfig.MeshConfig{}}}
		for _, s := range steps {
			e := step(s, key, value)
			switch {
			case e.Settings != nil:
				settings = e
			case e.Config.Kind == api.Namespace && e.Op == mesh.Upsert:
				namespaces[e.Config.Name] = e
			case e.Config.Kind == api.Namespace:
				delete(namespaces, e.Config.Name)
			case e.Op == mesh.Upsert:
				objects[e.Config.Key] = e
			default:
				delete(objects, e.Config.Key)
			}
			note(through, filter.Convert(mesh.Batch{e}))
		}
		fresh, want := New(Options{}), map[config.Key]bool{}
		batch := mesh.Batch{settings}
		for _, e := range namespaces {
			batch = append(batch, e)
		}
		for _, e := range objects {
			batch = append(batch, e)
		}
		note(want, fresh.Convert(batch))
		if _, wrong := parseSelectors(settings.Settings.Mesh.DiscoverySelectors); len(wrong) > 0 {
			return // the selectors before them hold
		}
		for k := range objects {
			if through[k] != want[k] {
				t.Errorf("%s passes: %t, with the final state at once: %t", k, through[k], want[k])
			}
		}
	})
}

// step reads a change of a byte: of one of two namespaces, an object in it, or the selectors.
func step(b byte, key, value string) mesh.Event {
	ns := []string{"a", "b"}[b>>2&1]
	e := mesh.Event{Op: mesh.Op(b >> 3 & 1), Source: "test"}
	switch b & 3 {
	case 0, 1:
		e.Config = &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.Namespace, Name: ns}}}
		if b>>4&1 == 1 {
			e.Config.Labels = map[string]string{key: value}
		}
	case 2:
		e.Config = &config.Config{Meta: config.Meta{Key: config.Key{Kind: api.Sidecar, Namespace: ns, Name: "x"}}, Hash: uint64(b)}
	default:
		m := &meshconfig.MeshConfig{}
		if b>>3&1 == 1 {
			m.DiscoverySelectors = []*meshconfig.LabelSelector{{MatchLabels: map[string]string{key: value}}}
		}
		e = mesh.Event{Source: "test", Settings: &mesh.Settings{Mesh: m}}
	}
	return e
}

// note records which objects pass.
func note(through map[config.Key]bool, batch mesh.Batch) {
	for _, e := range batch {
		if e.Config != nil && e.Config.Kind == api.Sidecar {
			through[e.Config.Key] = e.Op == mesh.Upsert
		}
	}
}
