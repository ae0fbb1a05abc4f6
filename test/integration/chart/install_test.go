package chart

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestInstall installs the charts as a new user would, upgrades them with all values, and uninstalls them.
func TestInstall(t *testing.T) {
	longtest.Test(t)
	c := cluster.Start(t, cluster.Options{})
	h := newHelm(t, c.Kubeconfig())

	h.run(t, "install", "istio-base", chart("base"), "-n", "istio-system", "--create-namespace")
	h.run(t, "install", "istiod", chart("istiod"), "-n", "istio-system")
	h.run(t, "install", "istio-ingressgateway", chart("gateway"), "-n", "istio-ingress", "--create-namespace")

	// The API server accepts the objects rendered with other values: `upgrade` sends all of them,
	// as another release would.
	for name, values := range valueSets() {
		which, _, _ := strings.Cut(name, ",")
		if which == "base" || len(values) == 0 || slices.Contains(values, "kind=DaemonSet") {
			continue
		}
		release, namespace := "istiod", "istio-system"
		if which == "gateway" {
			release, namespace = "istio-ingressgateway", "istio-ingress"
		}
		args := append([]string{"upgrade", release, chart(which), "-n", namespace}, arguments(values)...)
		if slices.Contains(values, "revision=canary") {
			args = append(args[:1:1], append([]string{"--install", release + "-canary"}, args[2:]...)...)
		}
		if strings.Contains(name, "Secrets of others") {
			for _, ns := range []string{"shop", "bank"} {
				createNamespace(t, c, ns)
			}
		}
		h.run(t, args...)
	}

	for _, release := range [][]string{
		{"istio-ingressgateway", "istio-ingress"}, {"istio-ingressgateway-canary", "istio-ingress"}, {"istiod", "istio-system"},
		{"istiod-canary", "istio-system"}, {"istio-base", "istio-system"},
	} {
		h.run(t, "uninstall", release[0], "-n", release[1], "--wait=false")
	}
	// Users' objects are deleted with their definitions, so uninstall leaves these.
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	crds, err := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
		List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(crds.Items) < 15 {
		t.Errorf("%d custom resource definitions are left after the uninstall, want all", len(crds.Items))
	}
	for _, kind := range []schema.GroupVersionResource{
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Version: "v1", Resource: "services"}, {Group: "apps", Version: "v1", Resource: "deployments"},
	} {
		list, err := client.Resource(kind).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=istio"})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			t.Errorf("%s %s is left after the uninstall", kind.Resource, o.GetName())
		}
	}
}

func createNamespace(t *testing.T, c *cluster.Cluster, name string) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	o := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	if _, err := namespaces.Create(t.Context(), unstructuredOf(o), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
