package translate

import (
	"slices"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func TestDefaultMeshConfigIsFollowed(t *testing.T) {
	if found := UnhonouredMesh(mesh.DefaultMeshConfig()); len(found) > 0 {
		t.Errorf("the default has problems: %v", found)
	}
}

func TestMeshFieldsWithoutEffectAreNamed(t *testing.T) {
	m, err := mesh.ParseMeshConfig([]byte(`
ca: {address: "ca:443"}
`))
	if err != nil {
		t.Fatal(err)
	}
	var fields []string
	for _, p := range UnhonouredMesh(m) {
		fields = append(fields, p.Field)
	}
	for _, want := range []string{"ca"} {
		if !slices.Contains(fields, want) {
			t.Errorf("%s is not among %v", want, fields)
		}
	}
}
