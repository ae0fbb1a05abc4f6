package serviceentry_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	meshconfig "istio.io/api/mesh/v1alpha1"
	"sigs.k8s.io/yaml"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestVisibility: MeshConfig.serviceEntryVisibility restricts exportTo, and follows the labels of
// namespaces.
func TestVisibility(t *testing.T) {
	const policies = "policies: [{visibility: NAMESPACE, matchingRules: [{namespaceSelector: {matchLabels: {shared: 'no'}}}]}," +
		" {visibility: NONE, matchingRules: [{namespaceSelector: {matchExpressions: [{key: shared, operator: In, values: [never]}]}}]}]"
	shared := func(value string) mesh.Event {
		return mesh.Event{Config: object(t, "kind: Namespace\nmetadata: {name: default, labels: {shared: '"+value+"'}}")}
	}
	settings := func(text string) mesh.Event {
		m := new(meshconfig.MeshConfig)
		body, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := protojson.Unmarshal(body, m); err != nil {
			t.Fatal(err)
		}
		return mesh.Event{Settings: &mesh.Settings{Mesh: m}}
	}
	entry := func(exportTo string) mesh.Event {
		return mesh.Event{Config: object(t, passthroughEntry+"\n  exportTo: ["+exportTo+"]")}
	}
	c, state := serviceentry.New(serviceentry.Options{SelectPods: true}), conform.NewState()
	for i, step := range []struct {
		event    mesh.Event
		want     []string
		problems int
	}{
		{entry("'*'"), []string{"*"}, 0},
		// not for sidecars
		{settings("serviceEntryVisibility: {defaultVisibility: NONE}"), []string{"*"}, 0},
		{settings("serviceEntryVisibility: {applyToSidecars: true, defaultVisibility: NAMESPACE}"), []string{"."}, 1},
		{entry("'.'"), []string{"."}, 0},
		{entry("default"), []string{"."}, 1},
		{entry("elsewhere"), []string{"~"}, 1},
		{entry(""), []string{"."}, 1},
		{settings("serviceEntryVisibility: {applyToSidecars: true, " + policies + "}"), nil, 0},
		{shared("no"), []string{"."}, 1},
		{shared("never"), []string{"~"}, 1},
		{shared("yes"), nil, 0},
		{settings("{}"), nil, 0},
	} {
		if err := state.Apply(c.Convert(mesh.Batch{step.event})); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, service(t, state, "*.example.org").ExportTo); diff != "" {
			t.Errorf("step %d: -want +got:\n%s", i, diff)
		}
		if got := problems(state); len(got) != step.problems {
			t.Errorf("step %d: problems %q", i, got)
		}
	}
}
