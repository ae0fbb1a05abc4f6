package status

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOlderDefinition: the status of a kind whose definition lacks the newest version is written in
// the version that is served.
func TestOlderDefinition(t *testing.T) {
	l := newLab(t)
	shared.Start(t).StopServing(t, "sidecars.networking.istio.io", "v1")
	sidecars := l.dynamic.Resource(schema.GroupVersionResource{
		Group: "networking.istio.io", Version: "v1beta1", Resource: "sidecars",
	}).Namespace(l.namespace)
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1beta1", "kind": "Sidecar", "metadata": map[string]any{"name": "default"},
		"spec": map[string]any{"egress": []any{map[string]any{"hosts": []any{"./*"}}}},
	}}
	u, err := sidecars.Create(t.Context(), u, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r := l.replica("pilot-a", Limits{})
	goes(t, r.w.Lead)
	r.sees(u)
	got := ""
	l.eventually(func() bool {
		u, err := sidecars.Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got = said(u)
		return got != ""
	}, func() string { return fmt.Sprintf("the Sidecar has no condition: %q", got) })
}
