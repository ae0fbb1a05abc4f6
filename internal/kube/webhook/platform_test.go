package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// TestUsersOfNamespaces creates pods in namespaces with OpenShift's ranges: the proxy runs as the
// last ID of the range, and traffic capture exempts that user. Without annotations the default user
// applies.
func TestUsersOfNamespaces(t *testing.T) {
	f := newFixture(t)
	n := NewNamespaces(f.client)
	f.injector.ProxyUsers = func(_ mesh.ClusterID, namespace string) inject.Users { return n.ProxyUsers(namespace) }
	f.part(n.Run)
	f.runConfigurations(nil)
	for _, c := range []struct {
		name        string
		annotations map[string]string
		uid, gid    int64
	}{
		{"nobody", nil, 1337, 1337},
		{"range", map[string]string{"openshift.io/sa.scc.uid-range": "1000620000/10000"}, 1000629999, 1000629999},
		{"groups", map[string]string{"openshift.io/sa.scc.uid-range": "1000630000/10000", "openshift.io/sa.scc.supplemental-groups": "5000/100"}, 1000639999, 5099},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := f.cluster.Namespace(t, c.name, nil)
			patch := strings.Builder{}
			for k, v := range c.annotations {
				fmt.Fprintf(&patch, ",%q:%q", k, v)
			}
			if _, err := f.client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"a":"b"`+patch.String()+`}}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			f.injection(t, ns, ns, "/inject")
			f.trusted(t, ns)
			var got *corev1.Pod
			serving.Eventually(
				t,
				patience,
				"a pod is admitted",
				func() (err error) { // the API server trusts it a little later
					got, err = f.client.CoreV1().Pods(ns).Create(t.Context(), pod("p", nil), metav1.CreateOptions{})
					return err
				},
			)
			i := slices.IndexFunc(got.Spec.Containers, func(c corev1.Container) bool { return c.Name == "istio-proxy" })
			if i < 0 || len(got.Spec.InitContainers) != 1 {
				t.Fatalf("containers %v", got.Spec.Containers)
			}
			s := got.Spec.Containers[i].SecurityContext
			if *s.RunAsUser != c.uid || *s.RunAsGroup != c.gid {
				t.Errorf("the proxy runs as %d:%d, want %d:%d", *s.RunAsUser, *s.RunAsGroup, c.uid, c.gid)
			}
			if args := strings.Join(got.Spec.InitContainers[0].Args, " "); !strings.Contains(
				args,
				fmt.Sprintf("-u %d ", c.uid),
			) {
				t.Errorf("capture lets others pass: %s", args)
			}
		})
	}
	unseen := f.cluster.Namespace(t, "new", nil)
	if _, err := f.client.CoreV1().Namespaces().Patch(
		t.Context(),
		unseen,
		types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"openshift.io/sa.scc.uid-range":"7000/10"}}}`),
		metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	if got := NewNamespaces(f.client).ProxyUsers(unseen); got != (inject.Users{UID: 7009, GID: 7009}) {
		t.Errorf("a namespace that the watch has not seen has %v", got)
	}
	if got := n.ProxyUsers("absent"); got != (inject.Users{}) {
		t.Errorf("a namespace that is not there has %v", got)
	}
}

// TestNodeVersionsDecideOnNativeSidecars follows the versions of nodes: all, or the pod's own node,
// must support native sidecars.
func TestNodeVersionsDecideOnNativeSidecars(t *testing.T) {
	f := newFixture(t)
	n := NewNodes(f.client)
	f.part(n.Run)
	node := func(name, version string) {
		t.Helper()
		name = f.revision + "-" + name
		if _, err := f.client.CoreV1().Nodes().Create(
			t.Context(),
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{},
		); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
		if _, err := f.client.CoreV1().Nodes().Patch(
			t.Context(),
			name,
			types.MergePatchType,
			[]byte(`{"status":{"nodeInfo":{"kubeletVersion":"`+version+`"}}}`),
			metav1.PatchOptions{},
			"status",
		); err != nil {
			t.Fatal(err)
		}
	}
	says := func(name string, want bool) {
		t.Helper()
		serving.Eventually(t, patience, "what the nodes can", func() error {
			if got := n.HasNativeSidecars(name); got != want {
				return fmt.Errorf("%q: native %v", name, got)
			}
			return nil
		})
	}
	says("", false) // no server is listening
	node("new", "v1.35.4+k3s1")
	says("", true)
	says(f.revision+"-new", true)
	node("old", "v1.32.9")
	says("", false)
	says(f.revision+"-old", false)
	says(f.revision+"-new", true)
	says("unknown", false)
}
