package status

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestGatewayStatusOfARevision: a control plane writes the status of Gateways that select its
// revision or a tag of it, and of no other revision's.
func TestGatewayStatusOfARevision(t *testing.T) {
	for _, revision := range []string{"canary", "default"} {
		t.Run(revision, func(t *testing.T) {
			l := newLab(t)
			r := l.replica("pilot-a", Limits{})
			r.w.Revision = revision
			tag := l.namespace
			statuses := &gatewayStatuses{all: map[config.Key]Desired{}}
			for name, selected := range map[string]string{"own": revision, "tagged": tag, "other": "stable"} {
				l.createGateway(statuses, name, selected)
			}
			lead := r.w.LeadGatewayAPI
			if revision != "default" {
				lead = r.w.LeadGatewayAPIRevision
			}
			goes(t, func(ctx context.Context) { lead(ctx, statuses.desired()) })
			serving.Eventually(t, 30*time.Second, "status of the own Gateway", func() error { return l.gatewayStatus("own") })

			t.Log("The tag is created after the Gateway.")
			if l.gatewayStatus("tagged") == nil {
				t.Error("the status of a Gateway of an unknown tag was written")
			}
			l.createTag(tag, revision)
			serving.Eventually(t, 30*time.Second, "status of the tagged Gateway", func() error { return l.gatewayStatus("tagged") })
			if l.gatewayStatus("other") == nil {
				t.Error("the status of another revision's Gateway was written")
			}
		})
	}
}

// createGateway creates a Gateway that selects a revision, and adds its desired status.
func (l *lab) createGateway(statuses *gatewayStatuses, name, revision string) {
	l.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{"gatewayClassName": "istio", "listeners": []any{
			map[string]any{"name": "http", "port": int64(80), "protocol": "HTTP"},
		}},
	}}
	u.SetAPIVersion("gateway.networking.k8s.io/v1")
	u.SetKind("Gateway")
	u.SetName(name)
	u.SetLabels(map[string]string{"istio.io/rev": revision})
	created, err := l.gateways().Namespace(l.namespace).Create(l.Context(), u, metav1.CreateOptions{})
	if err != nil {
		l.Fatal(err)
	}
	key := config.Key{Kind: api.KubernetesGateway, Namespace: l.namespace, Name: name}
	statuses.set(key, Desired{created.GetGeneration(), desiredStatus(key.Kind, created.GetGeneration(), "True")})
}

// gatewayStatus returns an error if the desired status of a Gateway has not been written.
func (l *lab) gatewayStatus(name string) error {
	u, err := l.gateways().Namespace(l.namespace).Get(l.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	addresses, _, _ := unstructured.NestedSlice(u.Object, "status", "addresses")
	if len(addresses) == 0 {
		return errors.New(fmt.Sprint(u.Object["status"]))
	}
	return nil
}

// createTag creates the webhook configuration of a tag, which the test's end deletes.
func (l *lab) createTag(tag, revision string) {
	l.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("admissionregistration.k8s.io/v1")
	u.SetKind("MutatingWebhookConfiguration")
	u.SetName("tag-" + tag)
	u.SetLabels(map[string]string{"istio.io/tag": tag, "istio.io/rev": revision})
	configurations := l.dynamic.Resource(schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations",
	})
	if _, err := configurations.Create(l.Context(), u, metav1.CreateOptions{}); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = configurations.Delete(context.Background(), u.GetName(), metav1.DeleteOptions{}) })
}

func (l *lab) gateways() dynamic.NamespaceableResourceInterface {
	return l.dynamic.Resource(schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "gateways"})
}
