package serviceentry_test

import (
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/conform"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/serviceentry"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestNetworkOfCluster: a WorkloadEntry of a remote cluster without a network of its own is in the
// cluster's network, which a label of the system namespace names, and changes with the label.
func TestNetworkOfCluster(t *testing.T) {
	system := func(labels string) mesh.Batch {
		return upserts(object(t, "kind: Namespace\nmetadata: {name: istio-system, labels: {"+labels+"}}"))
	}
	gone := system("topology.istio.io/network: far")
	gone[0].Op = mesh.Delete
	plain := object(t, "kind: WorkloadEntry\nmetadata: {name: plain, namespace: default}\nspec: {address: 192.0.2.1}")
	own := object(t, "kind: WorkloadEntry\nmetadata: {name: own, namespace: default}\nspec: {address: 192.0.2.2, network: own}")
	networks := &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{
		"planned": {Endpoints: []*meshconfig.Network_NetworkEndpoints{{Ne: &meshconfig.Network_NetworkEndpoints_FromRegistry{FromRegistry: "c1"}}}},
	}}
	for _, test := range []struct {
		name      string
		namespace string
		steps     []mesh.Batch
		want      mesh.Network
	}{
		{"none is named", "istio-system", []mesh.Batch{upserts(plain, own)}, ""},
		{"the namespace is added first", "istio-system", []mesh.Batch{system("topology.istio.io/network: far"), upserts(plain, own)}, "far"},
		{"the namespace is added last", "istio-system", []mesh.Batch{upserts(plain, own), system("topology.istio.io/network: far")}, "far"},
		{"the label changes", "istio-system", []mesh.Batch{system("topology.istio.io/network: far"), upserts(plain, own), system("topology.istio.io/network: away")}, "away"},
		{"the namespace is deleted", "istio-system", []mesh.Batch{system("topology.istio.io/network: far"), upserts(plain, own), gone}, ""},
		{"the label takes precedence over MeshNetworks", "istio-system", []mesh.Batch{{{Settings: &mesh.Settings{Networks: networks}}}, system("topology.istio.io/network: far"), upserts(plain, own)}, "far"},
		{"the config cluster has none of its own", "", []mesh.Batch{system("topology.istio.io/network: far"), upserts(plain, own)}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, state := serviceentry.New(serviceentry.Options{Cluster: cluster, SystemNamespace: test.namespace}), conform.NewState()
			for _, batch := range test.steps {
				if err := state.Apply(c.Convert(batch)); err != nil {
					t.Fatal(err)
				}
			}
			for of, want := range map[*config.Config]mesh.Network{plain: test.want, own: "own"} {
				for _, w := range state.Workloads {
					if w.From == of.Key && w.Network != want {
						t.Errorf("%s is in %q, want %q", of.Name, w.Network, want)
					}
				}
			}
			if len(state.Workloads) != 2 {
				t.Errorf("%d workloads", len(state.Workloads))
			}
		})
	}
}
