package serviceentry_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// FuzzConvert converts objects of arbitrary bytes, valid or not. None may panic, cause events that
// a registry must not emit, or leave objects behind when it is deleted.
func FuzzConvert(f *testing.F) {
	for _, text := range []string{staticEntry, dnsEntry, selectingEntry, workloadEntry, passthroughEntry} {
		c := object(f, text)
		body, err := proto.Marshal(c.Spec.(proto.Message))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(c.Kind == api.ServiceEntry, body, body)
	}
	f.Fuzz(func(t *testing.T, entry bool, first, second []byte) {
		kind := api.WorkloadEntry
		if entry {
			kind = api.ServiceEntry
		}
		converter, state := serviceentry.New(serviceentry.Options{SelectPods: true}), conform.NewState()
		tell := func(e mesh.Event) {
			if err := state.Apply(converter.Convert(mesh.Batch{e})); err != nil {
				t.Fatal(err)
			}
		}
		key := config.Key{Kind: kind, Namespace: "default", Name: "fuzz"}
		for _, body := range [][]byte{first, second} {
			info, _ := api.Info(kind)
			spec := info.NewSpec()
			if proto.Unmarshal(body, spec) != nil {
				return
			}
			c, err := config.New(config.Meta{Key: key}, spec)
			if err != nil {
				return
			}
			tell(mesh.Event{Config: c})
		}
		tell(mesh.Event{Op: mesh.Delete, Config: &config.Config{Meta: config.Meta{Key: key}}})
		if len(state.Services)+len(state.Shards)+len(state.Workloads)+len(state.Problems) > 0 {
			t.Errorf("something is left: %+v", state)
		}
	})
}
