package multicluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/discovery"
	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/sidecar"
)

// workloadEntry writes a WorkloadEntry of $NS.
const workloadEntry = `{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: %s, namespace: $NS, labels: {%s}}, spec: {address: %s}}`

// sameKind installs a custom kind of one cluster in another.
func sameKind(t *testing.T, from, to *cluster.Cluster, name string) {
	t.Helper()
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	crds := func(c *cluster.Cluster) dynamic.ResourceInterface {
		client, err := dynamic.NewForConfig(c.Config())
		if err != nil {
			t.Fatal(err)
		}
		return client.Resource(definitions)
	}
	kind, err := crds(from).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	annotations := kind.GetAnnotations() // groups of Kubernetes' own need one
	kind = &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.GetAPIVersion(), "kind": kind.GetKind(), "spec": kind.Object["spec"]}}
	kind.SetName(name)
	kind.SetAnnotations(annotations)
	if _, err := crds(to).Create(t.Context(), kind, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// TestRemoteWorkloadEntries: WorkloadEntries of a remote cluster, whose kind may be installed after
// the cluster is read, are endpoints of that cluster's Services and of ServiceEntries, and not of
// Services of other clusters. Nothing is written about them to the objects of the same name in the
// config cluster. They are removed with their cluster, and are not read if that is disabled.
func TestRemoteWorkloadEntries(t *testing.T) {
	longtest.Test(t)
	c1, c2 := shared.Start(t), other.Start(t)
	one, two := site{t, "one", c1.Client(t)}, site{t, "two", c2.Client(t)}
	system, shop := c1.Namespace(t, "istio-system-", nil), c1.Namespace(t, "shop-", nil)
	two.namespace(shop, nil)
	two.namespace(system, nil)
	for _, x := range []site{one, two} {
		x.service(shop, "web", 80, func(*corev1.Service) {})
	}
	one.service(shop, "own", 80, func(*corev1.Service) {})
	apply := func(c *cluster.Cluster, format string, args ...any) error {
		return c.Apply(t.Context(), strings.ReplaceAll(fmt.Sprintf(format, args...), "$NS", shop))
	}
	err := apply(c1, `{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: vms, namespace: $NS}, spec: {hosts: [vms.example.com],
  resolution: STATIC, location: MESH_INTERNAL, ports: [{number: 80, name: http, protocol: HTTP}], workloadSelector: {labels: {vm: "yes"}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	register(t, one.admin, system, "two", reader(t, c2, "reader-"+shop))
	start := func(change func(*discovery.Options)) (*controlPlane, *sidecar.Proxy) {
		p := startControlPlane(t, c1, system, func(o *discovery.Options) {
			o.ClusterID, o.SecureGRPCAddr, o.Authority.Enabled = "one", "", false
			change(o)
		})
		node := sidecar.Node("client", shop, "10.9.0.1", map[string]any{"CLUSTER_ID": "one", "NAMESPACE": shop, "ISTIO_VERSION": "1.29.0"})
		return p, sidecar.Connect(t, p.GRPC, node)
	}
	p, x := start(func(*discovery.Options) {})
	_, blind := start(func(o *discovery.Options) { o.PodName, o.Remote.ReadWorkloadEntries = "istiod-blind", false })
	p.until("the other is in sync without the kind", patience, p.is("two", "synced"))
	sameKind(t, c1, c2, "workloadentries.networking.istio.io")
	p.until("the kind is served", patience, func() error { return apply(c2, workloadEntry, "web", `app: web, vm: "yes"`, "192.0.2.1") })
	if err := errors.Join(
		apply(c1, workloadEntry, "here", `app: web, vm: "yes"`, "192.0.2.2"),
		apply(c2, workloadEntry, "own", `app: own, vm: "yes"`, "192.0.2.3"),
	); err != nil {
		t.Fatal(err)
	}
	web, own, vms := "outbound|80||web."+shop+".svc.cluster.local", "outbound|80||own."+shop+".svc.cluster.local", "outbound|80||vms.example.com"
	has := func(x *sidecar.Proxy, cluster string, want ...string) func() error {
		return func() error {
			if diff := cmp.Diff(want, x.Addresses(cluster)); diff != "" {
				return fmt.Errorf("endpoints of %s (-want +got):\n%s", cluster, diff)
			}
			return nil
		}
	}
	p.until("the ServiceEntry has all", patience, has(x, vms, "192.0.2.1", "192.0.2.2", "192.0.2.3"))
	p.until("the Service has those of its clusters", patience, has(x, web, "192.0.2.1", "192.0.2.2"))
	if err := has(x, own)(); err != nil {
		t.Errorf("a Service that only one cluster has: %v", err)
	}
	p.until("one that is not to look has its own", patience, has(blind, vms, "192.0.2.2"))

	// A Problem of one names its cluster, and the object of the same name has another status.
	const twice = `{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: twice, namespace: $NS, labels: {%s}}, spec: {address: 192.0.2.4, labels: {team: a}}}`
	if err := apply(c2, twice, "team: b"); err != nil {
		t.Fatal(err)
	}
	p.until("the mistake there is reported", patience, func() error {
		text, err := p.GetPage("/debug/problemz")
		if err == nil {
			err = errors.Join(contains(text, "cluster two"), contains(text, "twice"))
		}
		return err
	})
	if err := apply(c1, twice, "team: a"); err != nil {
		t.Fatal(err)
	}
	entries := dynamic.NewForConfigOrDie(c1.Config()).Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "workloadentries"})
	p.until("the namesake has a status", patience, func() error {
		object, err := entries.Namespace(shop).Get(t.Context(), "twice", metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); err == nil && (!strings.Contains(text, "Reconciled") || strings.Contains(text, "not used")) {
			err = errors.New("its conditions are " + text)
		}
		return err
	})

	// Deleted individually, and removed with their cluster.
	there := dynamic.NewForConfigOrDie(c2.Config()).Resource(schema.GroupVersionResource{Group: "networking.istio.io", Version: "v1", Resource: "workloadentries"})
	if err := there.Namespace(shop).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.until("one endpoint is removed", patience, has(x, vms, "192.0.2.2", "192.0.2.3"))
	if err := one.admin.CoreV1().Secrets(system).Delete(t.Context(), "istio-remote-secret-two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.until("all are", patience, has(x, vms, "192.0.2.2"))
	if err := has(blind, vms, "192.0.2.2")(); err != nil {
		t.Errorf("one that is not to look: %v", err)
	}
}
