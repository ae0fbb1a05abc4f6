package webhook

import (
	"context"
	"errors"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"istio.io/api/label"
)

// Probe gives a function that asks the API server, in a dry run, to take a Gateway that must be refused, and says why validation
// is not seen to work if it is not. The object is put into the namespace given.
func Probe(client dynamic.Interface, namespace, revision string) func(context.Context, *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	return func(ctx context.Context, v *admissionregistrationv1.ValidatingWebhookConfiguration) error {
		gateway := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "networking.istio.io/v1", "kind": "Gateway",
			"metadata": map[string]any{
				"name": "invalid-gateway", "namespace": namespace, "annotations": map[string]any{alwaysReject: "true"},
			},
			"spec": map[string]any{
				"servers": []any{map[string]any{
					"hosts": []any{"*"}, "port": map[string]any{"name": "http", "number": int64(80), "protocol": "HTTP"},
				}},
			},
		}}
		gateway.SetLabels(selected(v, revision))
		resource := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "gateways"}
		_, err := client.Resource(resource).Namespace(namespace).Create(ctx, gateway, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err == nil:
			return errors.New("a Gateway that must be refused was taken")
		case strings.Contains(err.Error(), "denied the request"):
			return nil
		case apierrors.IsNotFound(err): // there is no such kind, so there is nothing to validate
			return nil
		case strings.Contains(err.Error(), "does not support dry run"): // another webhook; that cannot be seen to work
			return nil
		}
		return fmt.Errorf("a Gateway that must be refused was refused for another reason: %w", err)
	}
}

// selected gives labels with which an object goes to the webhooks of a configuration.
func selected(v *admissionregistrationv1.ValidatingWebhookConfiguration, revision string) map[string]string {
	own := map[string]string{label.IoIstioRev.Name: revision}
	for _, w := range v.Webhooks {
		if s, err := metav1.LabelSelectorAsSelector(w.ObjectSelector); w.ObjectSelector != nil && err == nil && !s.Matches(labels.Set(own)) {
			return nil
		}
	}
	return own
}
