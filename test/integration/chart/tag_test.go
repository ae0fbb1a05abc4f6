package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/meshpilot/meshpilot/internal/diagnostics/revision"
)

// TestTagsOfPilotctlAreThoseOfTheChart renders the chart with two tags, and compares their webhooks with
// the output of pilotctl tag for the webhooks of the revision.
func TestTagsOfPilotctlAreThoseOfTheChart(t *testing.T) {
	h := newHelm(t, "")
	rendered := map[string]*admissionv1.MutatingWebhookConfiguration{}
	client := fake.NewClientset()
	text := h.run(t, "template", "x", chart("istiod"), "-n", "istio-system", "--set", "revision=canary,revisionTags={prod,default}")
	for _, o := range objects(t, text) {
		if o.GetKind() != "MutatingWebhookConfiguration" {
			continue
		}
		var m admissionv1.MutatingWebhookConfiguration
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &m); err != nil {
			t.Fatal(err)
		}
		rendered[m.Name] = &m
		if _, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), &m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := revision.List(t.Context(), client)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d configurations: %v", len(list), err)
	}
	for _, tag := range []string{"prod", "default"} {
		got, err := revision.NewTag(list, tag, "canary", "istio-system")
		if err != nil {
			t.Fatal(err)
		}
		want := rendered[got.Name]
		if want == nil {
			t.Fatalf("the chart has no %s", got.Name)
		}
		if diff := cmp.Diff(want.Webhooks, got.Webhooks, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("tag %s (-chart +pilotctl):\n%s", tag, diff)
		}
		for k, v := range got.Labels {
			if want.Labels[k] != v {
				t.Errorf("tag %s: label %s is %q, in the chart %q", tag, k, v, want.Labels[k])
			}
		}
	}
}
