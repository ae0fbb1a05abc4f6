package chart

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/test/support/cluster"
)

// gatewayObjects are a Gateway whose parameters request an autoscaler and a disruption budget, a route, a policy of the experimental
// channel, and an InferencePool.
const gatewayObjects = `
apiVersion: v1
kind: ConfigMap
metadata: {name: parameters, namespace: shop}
data:
  horizontalPodAutoscaler: "spec: {maxReplicas: 2}"
  podDisruptionBudget: "spec: {minAvailable: 1}"
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: front, namespace: shop}
spec:
  gatewayClassName: istio
  infrastructure: {parametersRef: {group: "", kind: ConfigMap, name: parameters}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: front, namespace: shop}
spec: {parentRefs: [{name: front}], rules: [{backendRefs: [{name: web, port: 80}, {group: inference.networking.k8s.io, kind: InferencePool, name: models}]}]}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: web, namespace: shop}
spec:
  targetRefs: [{group: "", kind: Service, name: web}]
  retryConstraint: {budget: {percent: 20, interval: 10s}}
---
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: models, namespace: shop}
spec: {selector: {matchLabels: {app: model}}, targetPorts: [{number: 8000}], endpointPickerRef: {name: web, port: {number: 80}}}
`

// gatewayStory lets the control plane create classes, deploy a Gateway, write statuses, and delete
// objects that are no longer requested.
func gatewayStory(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	const group = "gateway.networking.k8s.io"
	exists := func(group, version, resource, namespace, name string, path ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s %s", resource, name), func(ctx context.Context) error {
			gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
			u, err := client.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil || len(path) == 0 {
				return err
			}
			_, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
			if err == nil && !found {
				err = fmt.Errorf("no %v yet", path)
			}
			return err
		})
	}
	exists(group, "v1", "gatewayclasses", "", "istio")
	if err := c.Apply(t.Context(), gatewayObjects); err != nil {
		t.Fatal(err)
	}
	exists("", "v1", "serviceaccounts", "shop", "front-istio")
	exists("apps", "v1", "deployments", "shop", "front-istio")
	exists("", "v1", "services", "shop", "front-istio")
	exists("autoscaling", "v2", "horizontalpodautoscalers", "shop", "front-istio")
	exists("policy", "v1", "poddisruptionbudgets", "shop", "front-istio")
	exists(group, "v1", "gateways", "shop", "front", "status", "listeners")
	exists(group, "v1", "httproutes", "shop", "front", "status", "parents")
	exists("gateway.networking.x-k8s.io", "v1alpha1", "xbackendtrafficpolicies", "shop", "web", "status", "ancestors")
	exists("inference.networking.k8s.io", "v1", "inferencepools", "shop", "models", "status", "parents")

	data := []byte(`{"data": null}`)
	if _, err := c.Client(t).CoreV1().ConfigMaps("shop").Patch(t.Context(), "parameters", "application/merge-patch+json", data, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the autoscaler and the disruption budget are deleted", func(ctx context.Context) error {
		_, err := c.Client(t).AutoscalingV2().HorizontalPodAutoscalers("shop").Get(ctx, "front-istio", metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("there is an autoscaler")
		}
		if _, err = c.Client(t).PolicyV1().PodDisruptionBudgets("shop").Get(ctx, "front-istio", metav1.GetOptions{}); err == nil {
			return fmt.Errorf("there is a disruption budget")
		}
		if !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
}
