package kube

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/test/support/cluster"
)

// TestDefinitionsThatMayNotBeRead: custom objects are read although the control plane may not read
// their definitions.
func TestDefinitionsThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	c := shared.Start(t)
	ns := c.Namespace(t, "discovery", nil)
	user := "reader-" + ns
	c.Grant(t, cluster.User(user), rbacv1.PolicyRule{APIGroups: []string{"networking.istio.io"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}})
	r := read(t, Options{
		Client: newClient(t, c.UserConfig(user)), Kinds: []api.Kind{api.Sidecar, api.GatewayClass}, Namespaces: []string{ns},
		Backoff: 10 * time.Millisecond, MaxBackoff: 200 * time.Millisecond,
	})
	r.awaitSynced()
	if err := c.Apply(t.Context(), "apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: a, namespace: "+ns+"}\nspec: {egress: [{hosts: [\"*/*\"]}]}"); err != nil {
		t.Fatal(err)
	}
	r.await("the object", func() bool { return r.get(api.Sidecar, ns, "a") != nil })
	if r.has("cannot be read") {
		t.Errorf("problems: %v", r.problems)
	}
}

// TestDiscovered: a kind is removed after it was missing several times in a row. If definitions
// have been read, discovery is ignored.
func TestDiscovered(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, "", errors.New("no"))
	var refusal error = forbidden
	served := []string{"sidecars", "gateways"}
	var broken error
	d := &discovered{
		ListerWatcherWithContext: &cache.ListWatch{ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &rawList{}, refusal
		}},
		wanted: []api.KindInfo{
			{Kind: "Sidecar", Group: "networking.istio.io", Plural: "sidecars", Versions: []string{"v1", "v1beta1"}},
			{Kind: "Gateway", Group: "networking.istio.io", Plural: "gateways", Versions: []string{"v1", "v1beta1"}},
		},
		resources: func(_ context.Context, gv string) (*metav1.APIResourceList, error) {
			list := &metav1.APIResourceList{}
			if gv == "networking.istio.io/v1" {
				return nil, apierrors.NewNotFound(schema.GroupResource{}, gv)
			}
			for _, name := range served {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
			}
			return list, broken
		},
		log: slog.New(slog.DiscardHandler), missing: map[string]int{}, known: map[string]runtime.Object{},
	}
	names := func() (list []string) {
		got, err := d.ListWithContext(t.Context(), metav1.ListOptions{})
		if err != nil {
			return []string{"error"}
		}
		for _, o := range got.(*rawList).Items {
			raw := o.(*rawObject)
			version, err := servedVersion(raw.body, []string{"v1", "v1beta1"})
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, raw.Name+" "+version)
		}
		slices.Sort(list)
		return list
	}
	both := []string{"gateways.networking.istio.io v1beta1", "sidecars.networking.istio.io v1beta1"}
	for i, step := range []struct {
		served []string
		broken error
		want   []string
	}{
		{served, nil, both},
		{nil, errors.New("away"), []string{"error"}},
		{nil, nil, both},
		{served[:1], nil, both},
		{served, nil, both},
		{served[:1], nil, both},
		{served[:1], nil, both},
		{served[:1], nil, both[1:]},
	} {
		served, broken = step.served, step.broken
		if diff := cmp.Diff(step.want, names()); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	refusal = nil
	if diff := cmp.Diff([]string(nil), names()); diff != "" {
		t.Errorf("definitions that can be read (-want +got):\n%s", diff)
	}
	refusal = forbidden
	if diff := cmp.Diff([]string{"error"}, names()); diff != "" {
		t.Errorf("definitions that cannot be read any more (-want +got):\n%s", diff)
	}
}
