package endpoint

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"google.golang.org/protobuf/proto"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// TestWire compares the hand-written encoding with the canonical encoding of Envoy's message: the
// bytes are the same.
func TestWire(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func() string { return strings.Repeat("x", random.IntN(4)*random.IntN(60)) }
	health := []mesh.Health{mesh.Healthy, mesh.Unhealthy}
	port := mesh.Port{Name: "http", Number: 80}
	for i := range 300 {
		set := &snapshot.EndpointSet{}
		for j := range random.IntN(40) {
			e := &mesh.Endpoint{
				Address: fmt.Sprintf("10.0.0.%d", j), Port: random.Uint32N(70000), ServicePort: "http", Health: health[random.IntN(2)],
				Workload: text(), Namespace: text(), Cluster: mesh.ClusterID(text()), Weight: random.Uint32() >> random.IntN(32), TLSDisabled: random.IntN(3) == 0,
				Locality: mesh.Locality{Region: text(), Zone: text(), SubZone: text()},
			}
			switch random.IntN(5) {
			case 0:
				e.Address = "unix:///" + text()
			case 1:
				e.MoreAddresses = []string{"fd00::1", "fd00::2"}
			}
			set.Endpoints = append(set.Endpoints, e)
		}
		in := Input{
			Cluster:   mesh.ClusterName{Direction: mesh.Outbound, Port: 80, Host: mesh.Hostname("a" + text())},
			Service:   &mesh.Service{Resolution: mesh.Static, Ports: []mesh.Port{port}},
			Endpoints: set, Settings: &snapshot.Settings{Mesh: new(meshconfig.MeshConfig)},
		}
		written := in.appendAssignment(nil, newMember(in.Service, nil, in.Settings, in.Cluster, port))
		message := new(endpointv3.ClusterLoadAssignment)
		if err := proto.Unmarshal(written, message); err != nil {
			t.Fatalf("case %d does not decode: %v", i, err)
		}
		if err := message.ValidateAll(); err != nil && !strings.Contains(err.Error(), "PortValue") &&
			!strings.Contains(err.Error(), "Pipe") {
			t.Errorf("case %d breaks a constraint of the API: %v", i, err)
		}
		encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(written, encoded) {
			t.Fatalf("case %d, %d endpoints: the hand-written encoding differs from that of the message: %v",
				i, len(set.Endpoints), message)
		}
		if n := len(set.Endpoints); n > 0 && len(message.GetEndpoints()) == 0 {
			t.Errorf("case %d: nothing was written of %d endpoints", i, n)
		}
	}
}
