package ingress_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/ingress"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// FuzzConvert: the Gateways and VirtualServices converted from two arbitrary Ingresses are valid,
// do not depend on the order of the Ingresses, and are deleted with them.
func FuzzConvert(f *testing.F) {
	for _, s := range [][2]string{
		{webIngress, moreIngress}, {"spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}", "spec: {rules: [{host: '*', http: {paths: [{path: '(', pathType: Exact}]}}]}"},
		{"spec: {tls: [{hosts: [''], secretName: s}], rules: [{}]}", "spec: {rules: [{host: a..b, http: {paths: [{path: '', backend: {service: {name: '', port: {number: -1}}}}]}}]}"},
		{"spec: {ingressClassName: other}", "metadata: {annotations: {kubernetes.io/ingress.class: istio}}\nspec: {rules: [{host: A.b, http: {paths: [{path: /x, backend: {service: {name: c, port: {number: 1}}}}]}}]}"},
	} {
		f.Add([]byte(s[0]), []byte(s[1]))
	}
	read := func(name string, text []byte) *config.Config {
		info, _ := api.Info(api.Ingress)
		spec := info.NewObject()
		if len(text) > 1<<14 || yaml.Unmarshal(text, spec) != nil {
			return nil
		}
		c, err := config.New(config.Meta{Key: config.Key{Kind: api.Ingress, Namespace: "default", Name: name}, Annotations: spec.GetAnnotations(), Created: spec.GetCreationTimestamp().Time}, spec)
		if err != nil {
			return nil
		}
		return c
	}
	fold := func(t *testing.T, made map[string]uint64, batch mesh.Batch) {
		for _, e := range batch {
			switch {
			case e.Config == nil || e.Config.Kind == api.Ingress:
			case e.Op == mesh.Delete:
				if _, there := made[e.Config.Key.String()]; !there {
					t.Errorf("%s is deleted, but was never emitted", e.Config.Key)
				}
				delete(made, e.Config.Key.String())
			default:
				made[e.Config.Key.String()] = e.Config.Hash
			}
		}
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		a, b := read("a", first), read("b", second)
		if a == nil || b == nil {
			return
		}
		settings := mesh.Event{Settings: &mesh.Settings{Mesh: mesh.DefaultMeshConfig()}}
		forwards, backwards := map[string]uint64{}, map[string]uint64{}
		c, d := ingress.New(ingress.Options{}), ingress.New(ingress.Options{})
		fold(t, forwards, c.Convert(mesh.Batch{settings, {Config: a}, {Config: b}}))
		fold(t, backwards, d.Convert(mesh.Batch{settings}))
		fold(t, backwards, d.Convert(mesh.Batch{{Config: b}}))
		fold(t, backwards, d.Convert(mesh.Batch{{Config: a}}))
		if diff := gocmp.Diff(forwards, backwards); diff != "" {
			t.Errorf("the order matters (-forwards +backwards):\n%s", diff)
		}
		fold(t, forwards, c.Convert(mesh.Batch{{Op: mesh.Delete, Config: a}, {Op: mesh.Delete, Config: b}}))
		if len(forwards) > 0 {
			t.Errorf("left are %v", forwards)
		}
	})
}
