package webhook

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

func virtualServices() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const goodVirtualService = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: good}
spec: {hosts: [a], http: [{route: [{destination: {host: a}}]}]}
`

// TestObjectsAreValidated creates objects on a real API server, which calls the webhook.
func TestObjectsAreValidated(t *testing.T) {
	f := newFixture(t)
	ns := f.cluster.Namespace(t, "validated", nil)
	client, err := dynamic.NewForConfig(f.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	objects := client.Resource(virtualServices()).Namespace(ns)
	// An object from before validation was enabled, which would be refused now.
	old := object(
		t,
		strings.Replace(
			strings.Replace(goodVirtualService, "good", "old", 1),
			"host: a",
			"host: a, port: {number: 70000}",
			1,
		),
	)
	if _, err := objects.Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatalf("the API server does not take an object that its schema allows and the webhook does not: %v", err)
	}
	f.validation(t, ns, ns)
	f.runConfigurations(func(c *Configurations) { c.ProbeValidation = NewValidationProbe(client, ns, f.revision) })
	f.closed(t, ns)

	for _, c := range []struct{ name, text, field, reason string }{
		{"a weight", "hosts: [a], http: [{route: [{destination: {host: a}, weight: -1}]}]", "spec.http[0].route[0].weight", ""},
		{"a port", "hosts: [a], http: [{route: [{destination: {host: a, port: {number: 70000}}}]}]", "spec.http[0].route[0].destination.port.number", ""},
		{"a regular expression", "hosts: [a], http: [{match: [{uri: {regex: \"(\"}}], route: [{destination: {host: a}}]}]", "spec.http[0].match[0].uri.regex", ""},
		{"a huge regular expression", "hosts: [a], http: [{match: [{uri: {regex: \"" + strings.Repeat("a", 2000) + "\"}}], route: [{destination: {host: a}}]}]", "spec.http[0].match[0].uri.regex", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := object(
				t,
				"apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {generateName: bad-}\nspec: {"+c.text+"}",
			)
			_, err := objects.Create(t.Context(), u, metav1.CreateOptions{})
			status := &apierrors.StatusError{}
			if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
				t.Fatalf("error %v; want a refusal", err)
			}
			if !strings.Contains(err.Error(), c.field) {
				t.Errorf("%q does not name %s", err, c.field)
			}
			// Unless the API server's schema has refused the object first, the error names its
			// fields for programs.
			if !strings.Contains(err.Error(), "denied the request") {
				return
			}
			details := status.ErrStatus.Details
			if len(details.Causes) == 0 || details.Causes[0].Field != c.field {
				t.Errorf("details %+v", details)
			}
			if details.Kind != "VirtualService" || !strings.HasPrefix(details.Name, "bad-") {
				t.Errorf("the refusal is about %s %q; want VirtualService bad-…", details.Kind, details.Name)
			}
		})
	}

	t.Run("a good one", func(t *testing.T) {
		u := object(t, goodVirtualService)
		if _, err := objects.Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := objects.Delete(t.Context(), "good", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("an old one stays manageable", func(t *testing.T) {
		patch := func(text string) error {
			_, err := objects.Patch(
				t.Context(),
				"old",
				"application/merge-patch+json",
				[]byte(text),
				metav1.PatchOptions{},
			)
			return err
		}
		if err := patch(`{"metadata":{"labels":{"a":"b"},"finalizers":["example.com/f"]}}`); err != nil {
			t.Error("a label:", err)
		}
		if err := patch(`{"spec":{"hosts":["b"]}}`); !apierrors.IsInvalid(err) {
			t.Error("another spec that is as wrong:", err)
		}
		if err := objects.Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
			t.Error("its deletion:", err)
		}
		if err := patch(`{"metadata":{"finalizers":null}}`); err != nil && !apierrors.IsNotFound(err) {
			t.Error("the end of its deletion:", err)
		}
	})
	t.Run("another certificate", func(t *testing.T) {
		f.roots.rotate()
		serving.Eventually(t, patience, "the API server believes the new certificate", func() error {
			u := object(t, strings.Replace(goodVirtualService, "good", "rotated", 1))
			_, err := objects.Create(context.Background(), u, metav1.CreateOptions{})
			return err
		})
	})
}
