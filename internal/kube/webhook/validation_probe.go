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

// NewValidationProbe returns a function that creates an invalid Gateway in a dry run, in the given
// namespace. The function returns nil if a webhook denies it. It also returns nil if validation
// cannot be tested: the kind is not installed, or another webhook does not support dry runs.
// Otherwise it returns an error with the reason why validation does not work.
func NewValidationProbe(
	client dynamic.Interface,
	namespace, revision string,
) func(context.Context, *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	return func(ctx context.Context, v *admissionregistrationv1.ValidatingWebhookConfiguration) error {
		gateway := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "networking.istio.io/v1", "kind": "Gateway",
			"metadata": map[string]any{
				"name": "invalid-gateway", "namespace": namespace, "annotations": map[string]any{alwaysReject: "true"},
			},
			"spec": map[string]any{
				"servers": []any{
					map[string]any{
						"hosts": []any{
							"*",
						},
						"port": map[string]any{"name": "http", "number": int64(80), "protocol": "HTTP"},
					},
				},
			},
		}}
		gateway.SetLabels(matchingLabels(v, revision))
		resource := schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "gateways"}
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := client.Resource(resource).Namespace(namespace).Create(ctx, gateway, dryRun)
		switch {
		case err == nil:
			return errors.New("an invalid Gateway was accepted in a dry run")
		case strings.Contains(err.Error(), "denied the request"):
			return nil
		case apierrors.IsNotFound(err): // the kind is not installed: nothing to validate
			return nil
		// another webhook without dry run; cannot be tested
		case strings.Contains(err.Error(), "does not support dry run"):
			return nil
		}
		return fmt.Errorf("an invalid Gateway was denied for another reason: %w", err)
	}
}

// matchingLabels returns labels by which the webhooks of the configuration select an object: the
// label istio.io/rev with the revision. It returns nil if the objectSelector of any webhook rejects
// that label. Missing and invalid selectors are ignored.
func matchingLabels(v *admissionregistrationv1.ValidatingWebhookConfiguration, revision string) map[string]string {
	revisionLabel := map[string]string{label.IoIstioRev.Name: revision}
	for _, w := range v.Webhooks {
		if s, err := metav1.LabelSelectorAsSelector(w.ObjectSelector); w.ObjectSelector != nil && err == nil &&
			!s.Matches(labels.Set(revisionLabel)) {
			return nil
		}
	}
	return revisionLabel
}
