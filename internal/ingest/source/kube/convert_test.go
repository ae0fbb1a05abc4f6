package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestRetiredAnnotation: a Service of an API server that an old annotation would have hidden is
// used, and reported.
func TestRetiredAnnotation(t *testing.T) {
	kind, _ := api.Info(api.Service)
	a := convertObject(kind, "", new(interner), &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Name: "db", Namespace: "shop", Annotations: map[string]string{"networking.istio.io/configScope": "PRIVATE"},
	}})
	if a.config == nil || len(a.problems) != 1 {
		t.Fatalf("%+v", a)
	}
	p := a.problems[0]
	if p.Severity != config.Warning || p.Field != "metadata.annotations[networking.istio.io/configScope]" || !strings.Contains(p.Reason, "networking.istio.io/exportTo") {
		t.Errorf("%s: %s", p.Severity, p)
	}
}

// TestForeignObjects: objects of another revision are ignored, except Gateways of the Gateway API,
// whose label may be a tag.
func TestForeignObjects(t *testing.T) {
	for _, tc := range []struct {
		kind            api.Kind
		label, revision string
		want            bool
	}{
		{api.VirtualService, "stable", "canary", true},
		{api.VirtualService, "canary", "canary", false},
		{api.VirtualService, "stable", "", false},
		{api.HTTPRoute, "stable", "canary", true},
		{api.KubernetesGateway, "prod", "canary", false},
		{api.Service, "stable", "canary", false},
	} {
		kind, _ := api.Info(tc.kind)
		if got := isForeign(kind, map[string]string{"istio.io/rev": tc.label}, tc.revision); got != tc.want {
			t.Errorf("%s with label %q, revision %q: %v", tc.kind, tc.label, tc.revision, got)
		}
	}
	kind, _ := api.Info(api.DestinationRule)
	if isForeign(kind, nil, "canary") {
		t.Error("an object without the label is foreign")
	}
}
