package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/meshpilot/meshpilot/test/support/serving"
)

func webhookConfigurationResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
}

// TestClasses: missing classes are created, also after their deletion; existing ones stay as they are.
func TestClasses(t *testing.T) {
	l := newLab(t, "")
	l.apply(classResource(), `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: meshpilot}
spec: {controllerName: example.com/mine}
`)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	c := &ClassCreator{Client: l.client, Classes: DefaultClasses(), Log: slog.New(l.log)}
	go func() { defer close(ended); c.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	classes := l.client.Dynamic.Resource(classResource())
	await := func(name, controller string) {
		t.Helper()
		serving.Eventually(t, patience, "class "+name, func() error {
			u, err := classes.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(u.Object, "spec", "controllerName"); got != controller {
				return fmt.Errorf("its controller is %s, want %s", got, controller)
			}
			return nil
		})
	}
	await("istio", ControllerName)
	await("istio-remote", RemoteControllerName)
	await("meshpilot", "example.com/mine")
	if err := classes.Delete(t.Context(), "istio", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await("istio", ControllerName)
}
