package workload

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// FuzzParseGroup: a group that is accepted is complete, and completing it again changes nothing.
func FuzzParseGroup(f *testing.F) {
	for _, s := range []string{
		"kind: WorkloadGroup\nmetadata: {name: vms, namespace: shop}\nspec: {template: {serviceAccount: vm, ports: {http: 80}}}\n",
		"kind: WorkloadGroup\nmetadata: {name: vms}\n", "kind: WorkloadGroup\n", "kind: Pod\n", "{", "kind: WorkloadGroup\nmetadata: {name: a}\nspec: {template: null, metadata: null, probe: {}}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<14 {
			return
		}
		g, err := ParseGroup(text)
		if err != nil {
			return
		}
		if g.Name == "" || g.Spec.Template == nil || g.Spec.Template.ServiceAccount == "" || g.Spec.Metadata == nil {
			t.Errorf("%+v", g)
		}
		before := proto.Clone(g.Spec)
		if g.setDefaults(); !proto.Equal(before, g.Spec) {
			t.Errorf("completed twice: %v, %v", before, g.Spec)
		}
		var o map[string]any
		if yaml.Unmarshal(text, &o) != nil || o["kind"] != "WorkloadGroup" {
			t.Errorf("accepted is %q", text)
		}
	})
}
