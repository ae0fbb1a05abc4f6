package registry

import (
	"maps"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestTopologyLabels checks that topology replaces labels, and that unknown fields have none.
func TestTopologyLabels(t *testing.T) {
	own := map[string]string{"app": "a", "topology.istio.io/network": "old", "topology.istio.io/cluster": "kept"}
	before := maps.Clone(own)
	got := Topology{Locality: mesh.Locality{Region: "r", Zone: "z"}, Network: "n", Node: "node"}.Labels(own)
	want := map[string]string{
		"app": "a", "topology.istio.io/network": "n", "topology.istio.io/cluster": "kept",
		"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "node",
	}
	if !maps.Equal(got, want) {
		t.Errorf("the labels are %v, want %v", got, want)
	}
	if !maps.Equal(own, before) {
		t.Errorf("the labels of the caller became %v", own)
	}
}
