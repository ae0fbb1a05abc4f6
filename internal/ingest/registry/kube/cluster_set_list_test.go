package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/kube"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestClusterSetServices: the list of exported and imported services is correct after each batch.
func TestClusterSetServices(t *testing.T) {
	all := kube.ClusterSet{Exports: true, Hosts: true}
	exported := kube.ClusterSetService{
		Cluster: "Kubernetes", Namespace: "default", Name: "reviews", Exported: true, Discoverable: map[mesh.Hostname]bool{},
	}
	served, both := exported, exported
	served.Discoverable = map[mesh.Hostname]bool{reviewsHost: true}
	both.Imported, both.VIP, both.Discoverable = true, "10.98.0.2", map[mesh.Hostname]bool{reviewsHost: true, clusterSetHost: true}
	local := both
	local.Discoverable = map[mesh.Hostname]bool{reviewsHost: false, clusterSetHost: true}
	for name, c := range map[string]struct {
		set     kube.ClusterSet
		batches []string
		want    []kube.ClusterSetService
	}{
		"off":                {kube.ClusterSet{}, []string{reviewsService, reviewsExport}, nil},
		"no service":         {all, []string{reviewsExport}, []kube.ClusterSetService{exported}},
		"a service":          {all, []string{reviewsExport, reviewsService}, []kube.ClusterSetService{served}},
		"imported too":       {all, []string{reviewsService, reviewsImport, reviewsExport}, []kube.ClusterSetService{both}},
		"local to a cluster": {kube.ClusterSet{Exports: true, Hosts: true, Local: true}, []string{reviewsService, reviewsImport, reviewsExport}, []kube.ClusterSetService{local}},
	} {
		k := kube.New(kube.Options{ClusterSet: c.set})
		for _, text := range c.batches {
			k.Convert(objects(t, text))
		}
		if diff := cmp.Diff(c.want, k.ClusterSetServices()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
