package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// gatewayObjects are one object of each kind with a status. NAME is the test's namespace.
const gatewayObjects = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: NAME}
spec: {controllerName: istio.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web, namespace: NAME}
spec: {gatewayClassName: NAME, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: web, namespace: NAME}
spec: {parentRef: {name: web}, listeners: [{name: http, port: 81, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: NAME}
spec: {parentRefs: [{name: web}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: web, namespace: NAME}
spec: {parentRefs: [{name: web}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: web, namespace: NAME}
spec: {parentRefs: [{name: web}], hostnames: [a.example.com], rules: [{backendRefs: [{name: a, port: 443}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: web, namespace: NAME}
spec:
  targetRefs: [{group: "", kind: Service, name: a}]
  validation: {hostname: a.example.com, wellKnownCACertificates: System}
`

// gatewayKind returns the kind of an object of the Gateway API.
func gatewayKind(u *unstructured.Unstructured) api.Kind {
	if u.GetKind() == api.KubernetesGateway.Name() {
		return api.KubernetesGateway
	}
	return api.Kind(u.GetKind())
}

func accepted(generation int64, status metav1.ConditionStatus) []metav1.Condition {
	return []metav1.Condition{{Type: "Accepted", Status: status, Reason: "Accepted", Message: "m", ObservedGeneration: generation}}
}

// desiredStatus returns a status with defaults left out, as a converter may return it.
func desiredStatus(kind api.Kind, generation int64, status metav1.ConditionStatus) any {
	conditions := accepted(generation, status)
	listener := gatewayv1.ListenerStatus{
		Name: "http", AttachedRoutes: 1, Conditions: conditions, SupportedKinds: []gatewayv1.RouteGroupKind{{Kind: "HTTPRoute"}},
	}
	parent := gatewayv1.ParentReference{Name: "web"}
	const controller = "istio.io/gateway-controller"
	switch kind {
	case api.GatewayClass:
		return &gatewayv1.GatewayClassStatus{Conditions: conditions, SupportedFeatures: []gatewayv1.SupportedFeature{{Name: "Gateway"}}}
	case api.KubernetesGateway:
		return &gatewayv1.GatewayStatus{
			Conditions: conditions, Listeners: []gatewayv1.ListenerStatus{listener},
			Addresses: []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}},
		}
	case api.ListenerSet:
		return &gatewayv1.ListenerSetStatus{Conditions: conditions, Listeners: []gatewayv1.ListenerEntryStatus{{
			Name: "http", AttachedRoutes: 1, Conditions: conditions, SupportedKinds: listener.SupportedKinds,
		}}}
	case api.BackendTLSPolicy:
		return &gatewayv1.PolicyStatus{Ancestors: []gatewayv1.PolicyAncestorStatus{{
			AncestorRef: parent, ControllerName: controller, Conditions: conditions,
		}}}
	}
	return &gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{{
		ParentRef: parent, ControllerName: controller, Conditions: conditions,
	}}}
}

// writesByOutcome counts writes by outcome.
type writesByOutcome struct {
	mu sync.Mutex
	n  map[string]int
}

func (w *writesByOutcome) Written(_ api.Kind, outcome string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n[outcome]++
}

func (w *writesByOutcome) get(outcome string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n[outcome]
}

// gatewayStatuses are the desired statuses of a test.
type gatewayStatuses struct {
	mu  sync.Mutex
	all map[config.Key]Desired
}

func (s *gatewayStatuses) set(k config.Key, d Desired) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[k] = d
}

func (s *gatewayStatuses) desired() DesiredStatuses {
	return DesiredStatuses{
		Get: func(k config.Key) (Desired, bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			d, ok := s.all[k]
			return d, ok
		},
		Kinds: func() map[api.Kind]struct{} {
			s.mu.Lock()
			defer s.mu.Unlock()
			kinds := map[api.Kind]struct{}{}
			for k := range s.all {
				kinds[k.Kind] = struct{}{}
			}
			return kinds
		},
		IsOwn: isOwnController,
	}
}

// TestGatewayAPIStatuses writes the status of an object of each kind to a real API server: once each, and once more
// for those whose status changes. Entries of another controller stay.
func TestGatewayAPIStatuses(t *testing.T) {
	l := newLab(t)
	r := l.replica("pilot-a", Limits{})
	writes := &writesByOutcome{n: map[string]int{}}
	r.w.Metrics = writes
	statuses := &gatewayStatuses{all: map[config.Key]Desired{}}
	objects := map[config.Key]*unstructured.Unstructured{}
	for _, text := range strings.Split(strings.ReplaceAll(gatewayObjects, "NAME", l.namespace), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		k := config.Key{Kind: gatewayKind(u), Namespace: u.GetNamespace(), Name: u.GetName()}
		gvr, err := resourceOf(k.Kind)
		if err != nil {
			t.Fatal(err)
		}
		made, err := l.dynamic.Resource(gvr).Namespace(k.Namespace).Create(t.Context(), u, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		objects[k] = made
		statuses.set(k, Desired{made.GetGeneration(), desiredStatus(k.Kind, made.GetGeneration(), "True")})
	}
	route := config.Key{Kind: api.HTTPRoute, Namespace: l.namespace, Name: "web"}
	routes, err := resourceOf(api.HTTPRoute)
	if err != nil {
		t.Fatal(err)
	}
	others := `{"status": {"parents": [{"parentRef": {"name": "web"}, "controllerName": "example.com/other", "conditions": [
		{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]}}`
	if _, err := l.dynamic.Resource(routes).Namespace(l.namespace).Patch(
		t.Context(), "web", types.MergePatchType, []byte(others), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}

	goes(t, func(ctx context.Context) { r.w.LeadGatewayAPI(ctx, statuses.desired()) })
	read := func(k config.Key) *unstructured.Unstructured {
		gvr, err := resourceOf(k.Kind)
		if err != nil {
			t.Fatal(err)
		}
		u, err := l.dynamic.Resource(gvr).Namespace(k.Namespace).Get(t.Context(), k.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	const patience = 30 * time.Second
	for k := range objects {
		serving.Eventually(t, patience, "status of "+k.String(), func() error {
			text, err := json.Marshal(read(k).Object["status"])
			if err != nil {
				return err
			}
			if !strings.Contains(string(text), `"message":"m"`) {
				return errors.New(string(text))
			}
			return nil
		})
	}
	time.Sleep(500 * time.Millisecond) // for what must not be written
	if n := writes.get("written"); n != len(objects) {
		t.Errorf("%d writes for %d objects", n, len(objects))
	}
	parents, _, _ := unstructured.NestedSlice(read(route).Object, "status", "parents")
	if len(parents) != 2 || parents[0].(map[string]any)["controllerName"] != "example.com/other" {
		t.Errorf("parents %v", parents)
	}

	t.Log("One status changes: one write. A status of another generation is not written.")
	statuses.set(route, Desired{objects[route].GetGeneration(), desiredStatus(route.Kind, objects[route].GetGeneration(), "False")})
	grpc := config.Key{Kind: api.GRPCRoute, Namespace: l.namespace, Name: "web"}
	statuses.set(grpc, Desired{objects[grpc].GetGeneration() + 1, desiredStatus(grpc.Kind, objects[grpc].GetGeneration()+1, "False")})
	r.book.Notify()
	serving.Eventually(t, patience, "the changed status", func() error {
		text, err := json.Marshal(read(route).Object["status"])
		if err == nil && !strings.Contains(string(text), `"status":"False"`) {
			err = errors.New(string(text))
		}
		return err
	})
	time.Sleep(500 * time.Millisecond)
	if n := writes.get("written"); n != len(objects)+1 {
		t.Errorf("%d writes, want %d", n, len(objects)+1)
	}
	if n := writes.get("failed"); n != 0 {
		t.Errorf("%d failed writes: %s", n, fmt.Sprint(r.log.String()))
	}

	t.Log("Another manager changes our entry: it is restored.")
	broken := `{"status": {"parents": []}}`
	if _, err := l.dynamic.Resource(routes).Namespace(l.namespace).Patch(
		t.Context(), "web", types.MergePatchType, []byte(broken), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	serving.Eventually(t, patience, "our entry", func() error {
		if parents, _, _ := unstructured.NestedSlice(read(route).Object, "status", "parents"); len(parents) != 1 {
			return fmt.Errorf("parents %v", parents)
		}
		return nil
	})
}
