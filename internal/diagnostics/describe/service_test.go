package describe

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestSubsets: a subset has the endpoints and workloads with its labels, and one without labels has
// all of them, as the cluster of the subset does.
func TestSubsets(t *testing.T) {
	rule := &snapshot.DestinationRule{Spec: &networking.DestinationRule{Subsets: []*networking.Subset{
		{Name: "v1", Labels: map[string]string{"version": "v1"}}, {Name: "v3", Labels: map[string]string{"version": "v3"}}, {Name: "all"},
	}}}
	endpoint := func(workload, address, port, version string) *mesh.Endpoint {
		return &mesh.Endpoint{Workload: workload, Address: address, ServicePort: port, Labels: map[string]string{"version": version}}
	}
	d := new(Service)
	d.addRule(rule, &snapshot.EndpointSet{Endpoints: []*mesh.Endpoint{
		endpoint("a", "10.1.0.1", "http", "v1"), endpoint("a", "10.1.0.1", "grpc", "v1"), endpoint("b", "10.1.0.2", "http", "v2"),
	}})
	d.markSubsets(map[string]string{"version": "v1", "app": "web"})
	for i, want := range []Subset{{Endpoints: 1, Matches: true}, {}, {Endpoints: 2, Matches: true}} {
		if got := d.DestinationRule.Subsets[i]; got.Endpoints != want.Endpoints || got.Matches != want.Matches {
			t.Errorf("%s: %d endpoints, matches %v; want %d, %v", got.Name, got.Endpoints, got.Matches, want.Endpoints, want.Matches)
		}
	}
}
