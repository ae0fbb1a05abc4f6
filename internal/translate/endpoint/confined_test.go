package endpoint_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/translate/endpoint"
	"github.com/meshpilot/meshpilot/test/support/fixture"
)

// TestConfined: endpoints of a service that is not exported are for callers of their own cluster
// only, and then callers of one cluster share an assignment.
func TestConfined(t *testing.T) {
	const host = mesh.Hostname("web.default.svc.clusterset.local")
	key := mesh.ServiceKey{Namespace: "default", Host: host}
	m := fixture.New(t, nil, nil)
	m.Send(
		mesh.Event{Service: mesh.Service{ServiceKey: key, Provider: mesh.Kubernetes, Name: "web", Resolution: mesh.Static, Addresses: []string{"10.98.0.1"},
			Ports: []mesh.Port{{Name: "http", Number: 80, Protocol: mesh.HTTP}}}.Sealed()},
		mesh.Event{Shard: mesh.Shard{Service: key, Key: mesh.ShardKey{
			Provider: mesh.Kubernetes,
			Cluster:  "east",
		}, Endpoints: []*mesh.Endpoint{
			{Address: "10.1.0.1", Port: 80, ServicePort: "http", Cluster: "east", Confined: true},
		}}.Sealed()},
		mesh.Event{Shard: mesh.Shard{Service: key, Key: mesh.ShardKey{
			Provider: mesh.Kubernetes,
			Cluster:  "west",
		}, Endpoints: []*mesh.Endpoint{
			{Address: "10.2.0.1", Port: 80, ServicePort: "http", Cluster: "west"},
		}}.Sealed()},
	)
	g := endpoint.NewGenerator()
	var held []any
	for cluster, want := range map[string]bool{"east": true, "west": false} {
		for i := range 2 {
			r := g.Named(
				m.View(fixture.Proxy(t, fmt.Appendf(nil, "{cluster: %s, namespace: n%d}", cluster, i))),
				"outbound|80||"+string(host),
			)
			held = append(held, r)
			if got := strings.Contains(string(r.Body), "10.1.0.1"); got != want {
				t.Errorf("a caller in %s has the endpoint in east: %t, want %t", cluster, got, want)
			}
			if !strings.Contains(string(r.Body), "10.2.0.1") {
				t.Errorf("a caller in %s does not have the exported endpoint in west", cluster)
			}
		}
	}
	if got := g.Computed(); got != 2 || len(held) != 4 {
		t.Errorf("%d assignments were made, want one for each cluster", got)
	}
}
