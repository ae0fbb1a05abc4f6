package patch

import (
	"os"
	"path/filepath"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// FuzzPatch applies EnvoyFilters of arbitrary bytes. None may panic, modify its input or return
// other bytes the second time, and the result can be decoded.
func FuzzPatch(f *testing.F) {
	for _, spec := range specs(f) {
		body, err := proto.Marshal(spec)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	w := newWorld(f, nil, nil, nil, nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		spec := new(networking.EnvoyFilter)
		if proto.Unmarshal(body, spec) != nil {
			return
		}
		key := config.Key{Kind: api.EnvoyFilter, Namespace: "default", Name: "fuzz"}
		c, err := config.New(config.Meta{Key: key}, spec)
		if err != nil {
			return
		}
		w.t = t
		w.mesh.Send(mesh.Event{Config: c})
		defer w.mesh.Send(mesh.Event{Op: mesh.Delete, Config: c})
		before := allOf(&world{
			t:         t,
			pass:      New(),
			clusters:  w.clusters,
			listeners: w.listeners,
			routes:    w.routes,
			mesh:      w.mesh,
			proxy:     w.proxy,
		})
		w.pass = New()
		first := allOf(w)
		w.problems()
		for typeURL, set := range allOf(w) {
			if set.Version() != first[typeURL].Version() || set.Version() != before[typeURL].Version() {
				t.Errorf("%s differs when patched again", typeURL)
			}
		}
		Check(spec)
	})
}

// specs returns the EnvoyFilters of all cases.
func specs(t testing.TB) []*networking.EnvoyFilter {
	t.Helper()
	var texts [][]byte
	for _, glob := range []string{cases, poisons} {
		files, err := filepath.Glob(glob)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", glob, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Ext(file) != ".txtar" {
				texts = append(texts, text)
				continue
			}
			for _, section := range txtar.Parse(text).Files {
				if section.Name == "config.yaml" {
					texts = append(texts, section.Data)
				}
			}
		}
	}
	var list []*networking.EnvoyFilter
	for _, text := range texts {
		objects, err := fixture.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range objects {
			if c.Kind == api.EnvoyFilter {
				list = append(list, config.Spec[*networking.EnvoyFilter](c))
			}
		}
	}
	return list
}
