package consul

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// FuzzConvert converts a sequence of arbitrary answers of Consul. None may panic, cause events
// that a registry must not send, exceed the limits, or leave objects behind after the deletion.
func FuzzConvert(f *testing.F) {
	f.Add("web", []byte(webEntries), []byte(dbEntries))
	f.Add("API", []byte(apiEntries), []byte(webEntries))
	f.Add("a.b", []byte(`[null, {}, {"Node": null}]`), []byte(`[{"Node": {}, "Service": {"Ports": [{"Port": -1}]}}]`))
	f.Fuzz(func(t *testing.T, name string, first, second []byte) {
		converter, state := NewConverter(ConverterOptions{}), conform.NewState()
		apply := func(e mesh.Event) {
			if err := state.Apply(converter.Convert(mesh.Batch{e})); err != nil {
				t.Fatal(err)
			}
		}
		key := config.Key{Kind: Kind, Namespace: "default", Name: name}
		for _, body := range [][]byte{first, second} {
			var entries []*api.ServiceEntry
			if json.Unmarshal(body, &entries) != nil {
				return
			}
			object, err := newObject("default", &Service{Name: name, Instances: parseInstances(entries)})
			if err != nil {
				return
			}
			apply(mesh.Event{Config: object})
			checkLimits(t, state)
		}
		apply(mesh.Event{Op: mesh.Delete, Config: &config.Config{Meta: config.Meta{Key: key}}})
		if len(state.Services)+len(state.Shards)+len(state.Workloads)+len(state.Problems) > 0 {
			t.Errorf("something is left: %+v", state)
		}
	})
}

func checkLimits(t *testing.T, state *conform.State) {
	for _, s := range state.Services {
		if len(s.Ports) == 0 || len(s.Ports) > maxPorts {
			t.Errorf("%s has %d ports", s.Host, len(s.Ports))
		}
	}
	for _, s := range state.Shards {
		for _, e := range s.Endpoints {
			if e.Address == "" || e.Port == 0 || e.ServicePort == "" || e.Weight > 65535 {
				t.Errorf("endpoint %+v", e)
			}
		}
	}
}
