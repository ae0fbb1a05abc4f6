package registry

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/internal/kube/leader"
	"github.com/meshpilot/meshpilot/test/support/controlplane"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// exporting is a control plane of two replicas that exports the services of one namespace.
type exporting struct {
	*controlPlane
	exports dynamic.ResourceInterface
}

// meshConfig limits the mesh to one namespace, and makes these services of it local to their
// cluster.
func (x exporting) meshConfig(local string) string {
	return fmt.Sprintf("discoverySelectors: [{matchLabels: {kubernetes.io/metadata.name: %[1]s}}]\n"+
		"serviceSettings: [{settings: {clusterLocal: true}, hosts: [%[2]s.%[1]s.svc.cluster.local]}]\n", x.namespace, local)
}

func (x exporting) replica(name string) *controlplane.Plane {
	x.Helper()
	o := controlplane.Options(x)
	o.Kubernetes.Kubeconfig = x.cluster.Kubeconfig()
	o.Namespace, o.PodName = x.system, name
	o.Revision, o.Authority.Enabled, o.Registry.Export = "default", false, true
	return controlplane.Start(x, o)
}

func (x exporting) service(names ...string) {
	x.Helper()
	for _, name := range names {
		x.apply(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: $NS}, spec: {ports: [{port: 80}]}}", name))
	}
}

// installExports installs the kinds of the Multi-Cluster Services API.
func (x exporting) installExports() {
	x.Helper()
	dir, err := exec.CommandContext(x.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/mcs-api").Output()
	if err == nil {
		err = x.cluster.InstallCRDs(x.Context(), filepath.Join(strings.TrimSpace(string(dir)), "config", "crd"))
	}
	if err != nil {
		x.Fatal(err)
	}
}

// there returns the exports by name.
func (x exporting) there() (map[string]unstructured.Unstructured, error) {
	list, err := x.exports.List(x.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := map[string]unstructured.Unstructured{}
	for _, e := range list.Items {
		all[e.GetName()] = e
	}
	return all, nil
}

// are checks which exports there are.
func (x exporting) are(want ...string) func() error {
	return func() error {
		all, err := x.there()
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(all))); diff != "" {
			return fmt.Errorf("exports: -want +got:\n%s", diff)
		}
		return nil
	}
}

// own checks that the export of a Service belongs to it.
func (x exporting) own(name string) func() error {
	return func() error {
		all, err := x.there()
		if err != nil {
			return err
		}
		service, err := x.cluster.Client(x).CoreV1().Services(x.namespace).Get(x.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		e := all[name]
		want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: name, UID: service.UID}}
		if diff := cmp.Diff(want, e.GetOwnerReferences()); diff != "" {
			return fmt.Errorf("owner of the export %s: -want +got:\n%s", name, diff)
		}
		return nil
	}
}

// exportKind is the resource as the API server serves it.
var exportKind = schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1beta1", Resource: "serviceexports"}

func newExporting(t *testing.T) exporting {
	c := shared.Start(t)
	x := exporting{controlPlane: &controlPlane{T: t, cluster: c, namespace: c.Namespace(t, "export", nil), system: c.Namespace(t, "istio-system", nil)}}
	x.exports = dynamic.NewForConfigOrDie(c.Config()).Resource(exportKind).Namespace(x.namespace)
	return x
}

// TestExports: one of the replicas exports every Service of the mesh that is not cluster-local, as
// soon as the kind is installed. Users' exports are not changed, and exports that users delete are
// not created again.
func TestExports(t *testing.T) {
	longtest.Test(t)
	x := newExporting(t)
	c := x.cluster
	elsewhere := c.Namespace(t, "elsewhere", nil)
	x.choose(x.meshConfig("local"))
	x.service("web", "local")
	x.apply("{apiVersion: v1, kind: Service, metadata: {name: alias, namespace: $NS}, spec: {type: ExternalName, externalName: www.example.com}}")
	x.apply("{apiVersion: v1, kind: Service, metadata: {name: web, namespace: " + elsewhere + "}, spec: {ports: [{port: 80}]}}")

	first, second := x.replica("istiod-0"), x.replica("istiod-1")
	x.Plane = second
	x.Eventually("the kind is missed", func() error {
		if !strings.Contains(first.LogText()+second.LogText(), "does not serve the kind") {
			return errors.New("no replica reports it")
		}
		return nil
	})
	x.installExports()
	x.apply("{apiVersion: multicluster.x-k8s.io/v1beta1, kind: ServiceExport, metadata: {name: mine, namespace: $NS, labels: {made-by: me}}}")
	all, err := x.there()
	if err != nil {
		t.Fatal(err)
	}
	mine := all["mine"]
	x.service("mine", "later")
	x.Eventually("services are exported", x.are("later", "mine", "web"))
	x.Eventually("an export is its Service's", x.own("web"))
	if all, err = x.there(); err != nil {
		t.Fatal(err)
	}
	if now := all["mine"]; now.GetResourceVersion() != mine.GetResourceVersion() || now.GetUID() != mine.GetUID() {
		t.Errorf("a user's export was changed: %v", now)
	}

	// Settings and Services that change.
	x.choose(x.meshConfig("nobody"))
	x.Eventually("one is not local any more", x.are("later", "local", "mine", "web"))

	// A user takes one back.
	if err := x.exports.Delete(t.Context(), "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	x.service("next")
	x.Eventually("another is exported", x.are("local", "mine", "next", "web"))

	first.Stop()
	x.service("last")
	x.Eventually("the other replica continues", func() error {
		all, err := x.there()
		if _, exported := all["last"]; err == nil && !exported {
			err = errors.New("it is not exported")
		}
		return err
	})
	if _, err := c.Client(t).CoordinationV1().Leases(x.system).Get(t.Context(), leader.ServiceExports, metav1.GetOptions{}); err != nil {
		t.Errorf("no leader was elected: %v", err)
	}
	outside := dynamic.NewForConfigOrDie(c.Config()).Resource(exportKind).Namespace(elsewhere)
	if list, err := outside.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
		t.Errorf("services that are not the mesh's are exported: %v (%v)", list, err)
	}
}

// TestExportOfNamesake: an export is deleted with its Service. A new Service of the same name gets
// its own export, even if it is created before the old export is deleted.
func TestExportOfNamesake(t *testing.T) {
	longtest.Test(t) // garbage of new kinds is collected after half a minute
	x := newExporting(t)
	x.choose(x.meshConfig("local"))
	x.installExports()
	x.service("web")
	x.Plane = x.replica("istiod-0")
	x.Eventually("it is exported", x.own("web"))
	if err := x.cluster.Client(t).CoreV1().Services(x.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	x.service("web")
	x.Eventually("the other has its own", x.own("web"))
}
