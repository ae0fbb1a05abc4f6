package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/diagnostics/connect"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// olderDefinitions are the answers of an API server that serves Sidecars in v1beta1 and v1alpha3,
// and VirtualServices in v1alpha3 only.
func olderDefinitions() map[string]string {
	const (
		sidecars = `{"kind":"SidecarList","apiVersion":"networking.istio.io/v1beta1","items":[
			{"apiVersion":"networking.istio.io/v1beta1","kind":"Sidecar","metadata":{"name":"default","namespace":"shop","generation":3}}]}`
		services = `{"kind":"VirtualServiceList","apiVersion":"networking.istio.io/v1alpha3","items":[]}`
		list     = `{"kind":"APIResourceList","apiVersion":"v1","resources":[{"name":"sidecars","kind":"Sidecar","namespaced":true,"verbs":["get","list"]}]}`
	)
	return map[string]string{
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`, "/apis/networking.istio.io/v1beta1": list,
		"/apis/networking.istio.io/v1beta1/sidecars": sidecars, "/apis/networking.istio.io/v1alpha3/sidecars": sidecars,
		"/apis/networking.istio.io/v1beta1/namespaces/shop/sidecars/default": `{"apiVersion":"networking.istio.io/v1beta1","kind":"Sidecar",
			"metadata":{"name":"default","namespace":"shop","generation":3}}`,
		"/apis/networking.istio.io/v1alpha3/virtualservices": services,
	}
}

// TestReadServedVersions reads each kind once, in the newest version that the API server serves.
func TestReadServedVersions(t *testing.T) {
	var warnings bytes.Buffer
	files, err := readCluster(t.Context(), connect.Options{Kubeconfig: kubeconfigOf(t, olderDefinitions())}, &warnings)
	if err != nil || warnings.Len() > 0 {
		t.Fatalf("%v, warnings %q", err, warnings.String())
	}
	want := []string{"cluster/virtualservices.networking.istio.io.json", "cluster/sidecars.networking.istio.io.json"}
	if diff := cmp.Diff(want, namesOf(files)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, f := range files {
		if strings.Contains(f.Name, "sidecars") && !strings.Contains(string(f.Text), "networking.istio.io/v1beta1") {
			t.Errorf("%s: %s", f.Name, f.Text)
		}
	}
}

// TestWaitReadsServedVersion reads the generation of an object in the version that the API server
// serves, and returns an error for a kind that it does not serve.
func TestWaitReadsServedVersion(t *testing.T) {
	w := &waiting{pageClient: new(pageClient)}
	w.Kubeconfig = kubeconfigOf(t, olderDefinitions())
	objects := []awaited{{key: config.Key{Kind: api.Sidecar, Namespace: "shop", Name: "default"}}}
	if err := w.readGenerations(t.Context(), objects); err != nil || objects[0].generation != 3 {
		t.Errorf("generation %d, %v; want 3", objects[0].generation, err)
	}
	objects = []awaited{{key: config.Key{Kind: api.DestinationRule, Namespace: "shop", Name: "web"}}}
	if err := w.readGenerations(t.Context(), objects); err == nil || !strings.Contains(err.Error(), "does not serve the kind") {
		t.Errorf("a kind that is not served: %v", err)
	}
}
