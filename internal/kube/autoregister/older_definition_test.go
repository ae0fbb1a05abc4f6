package autoregister

import (
	"testing"

	networking "istio.io/api/networking/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/kube/served"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestOlderDefinitions: entries are created, changed and deleted in the version that the API server
// serves, and their owner has the version of its own kind.
func TestOlderDefinitions(t *testing.T) {
	longtest.Test(t)
	c := cluster.Start(t, cluster.Options{IstioKinds: true})
	c.StopServing(t, "workloadentries.networking.istio.io", "v1")
	c.StopServing(t, "workloadgroups.networking.istio.io", "v1")
	c.StopServing(t, "workloadgroups.networking.istio.io", "v1beta1")
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	namespace := c.Namespace(t, "vms", nil)
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1alpha3", "kind": "WorkloadGroup", "metadata": map[string]any{"name": "vms"},
		"spec": map[string]any{"template": map[string]any{}},
	}}
	resource := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1alpha3", Resource: "workloadgroups"}
	if _, err := client.Dynamic.Resource(resource).Namespace(namespace).Create(
		t.Context(), group, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	s := NewKubernetesStore(client.Dynamic, client.Metadata, served.New(client.Kubernetes, nil))
	e := &Entry{Namespace: namespace, Name: "vms-1", Spec: &networking.WorkloadEntry{Address: "192.0.2.1"}, Group: Owner{Name: "vms"}}
	if err := s.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	read := func() *Entry {
		t.Helper()
		e, err := s.Get(t.Context(), namespace, "vms-1")
		if err != nil || e == nil {
			t.Fatalf("entry %v, error %v", e, err)
		}
		return e
	}
	if err := s.Annotate(t.Context(), read(), map[string]any{"note": "x"}); err != nil {
		t.Fatal(err)
	}
	if err := s.SetConditions(t.Context(), read(), []any{map[string]any{"type": "Healthy", "status": "True"}}); err != nil {
		t.Fatal(err)
	}
	e = read()
	if e.Spec.GetAddress() != "192.0.2.1" || e.Annotations["note"] != "x" || len(e.Conditions) != 1 {
		t.Errorf("the entry is %+v", e)
	}
	if err := s.Delete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Get(t.Context(), namespace, "vms-1"); err != nil || e != nil {
		t.Errorf("after its deletion there is %v, error %v", e, err)
	}
}
