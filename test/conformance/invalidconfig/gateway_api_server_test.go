package invalidconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// server is a real API server with the kinds of the Gateway API.
type server struct {
	*testing.T
	client dynamic.Interface
}

// objectsOf parses manifests.
func objectsOf(t *testing.T, manifests string) []*unstructured.Unstructured {
	t.Helper()
	var list []*unstructured.Unstructured
	for _, text := range strings.Split(manifests, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		list = append(list, u)
	}
	return list
}

func (s server) resource(u *unstructured.Unstructured) dynamic.ResourceInterface {
	s.Helper()
	gvk := u.GroupVersionKind()
	info, _, served := api.Lookup(gvk.Group, gvk.Version, gvk.Kind)
	if !served {
		s.Fatalf("unknown kind %v", gvk)
	}
	return s.client.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: info.Plural}).Namespace(u.GetNamespace())
}

// create creates objects. It returns the error of the first one that the API server refuses as invalid.
func (s server) create(list []*unstructured.Unstructured) error {
	s.Helper()
	for _, u := range list {
		_, err := s.resource(u).Create(s.Context(), u, metav1.CreateOptions{})
		if apierrors.IsInvalid(err) {
			return err
		}
		if err != nil {
			s.Fatal(err)
		}
	}
	return nil
}

// conditions returns the conditions in the status of an object, as TYPE=STATUS/REASON.
func (s server) conditions(u *unstructured.Unstructured) ([]string, error) {
	s.Helper()
	got, err := s.resource(u).Get(s.Context(), u.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return conditionsOf(s, got.Object["status"]), nil
}

// TestWrongGatewayAPIObjectsOnAServer creates the objects with mistakes on a real API server. Each is
// refused by the validation of its definition, or its status has the condition that names the
// mistake. The statuses of the good objects stay.
func TestWrongGatewayAPIObjectsOnAServer(t *testing.T) {
	longtest.Test(t)
	c := cluster.Start(t, cluster.Options{Tier: cluster.API, IstioKinds: true, GatewayAPI: cluster.Experimental})
	client, err := kube.NewClient(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.HTTP.CloseIdleConnections)
	s := server{t, client.Dynamic}
	text := newTexts(c.Namespace(t, "shop", nil), c.Namespace(t, "other", nil))
	o := controlplane.Options(t)
	o.Namespace, o.PodName = c.Namespace(t, "istio-system", nil), "pilot"
	o.Kubernetes.Kubeconfig = c.Kubeconfig()
	o.Authority.Enabled = false
	plane := controlplane.Start(t, o)
	good := objectsOf(t, text.of(goodGatewayAPI[strings.Index(goodGatewayAPI, "apiVersion"):], ""))
	if err := s.create(good); err != nil {
		t.Fatal(err)
	}
	requireGood := func() {
		t.Helper()
		for _, u := range good {
			if u.GetKind() != "Gateway" && !strings.HasSuffix(u.GetKind(), "Route") && u.GetKind() != "ListenerSet" && u.GetKind() != "BackendTLSPolicy" {
				continue
			}
			plane.Eventually("good status of "+u.GetKind()+" "+u.GetName(), func() error {
				list, err := s.conditions(u)
				if err == nil && (!slices.Contains(list, "Accepted=True/Accepted") || slices.ContainsFunc(list, isFailed)) {
					err = fmt.Errorf("conditions %q", list)
				}
				return err
			})
		}
	}
	requireGood()
	named, refused := 0, 0
	for i, w := range wrongObjects() {
		objects := objectsOf(t, text.of(w.text, fmt.Sprintf("wrong-%d", i)))
		if err := s.create(objects); err != nil {
			refused++
			t.Logf("%s: refused by the API server: %v", w.mistake, err)
			continue
		}
		if w.condition == "" {
			continue
		}
		named++
		plane.Eventually("condition of "+w.mistake, func() error {
			list, err := s.conditions(objects[0])
			if err == nil && !slices.Contains(list, w.condition) {
				err = errors.New("conditions " + strings.Join(list, ", ") + ", want " + w.condition)
			}
			return err
		})
	}
	requireGood()
	t.Logf("%d mistakes are named by a status, %d refused by the API server", named, refused)
	if named < 45 {
		t.Errorf("only %d mistakes reached a status", named)
	}
}

// isFailed reports whether a condition of a good object is one that it must not have.
func isFailed(condition string) bool {
	return strings.HasPrefix(condition, "Accepted=False") || strings.HasPrefix(condition, "ResolvedRefs=False") ||
		strings.HasPrefix(condition, "Conflicted=True") || strings.HasPrefix(condition, "PartiallyInvalid")
}
