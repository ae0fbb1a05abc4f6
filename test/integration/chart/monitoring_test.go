package chart

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/test/support/cluster"
	"github.com/meshpilot/meshpilot/test/support/prometheus"
)

// monitoringKinds are the resources of the Prometheus operator's kinds that the chart istiod has.
func monitoringKinds() map[string]string {
	return map[string]string{"PrometheusRule": "prometheusrules", "ServiceMonitor": "servicemonitors", "PodMonitor": "podmonitors"}
}

// monitoring are the values that enable all of them.
func monitoring() []string {
	return []string{
		"monitoring.rules.enabled=true", "monitoring.rules.labels.prometheus=a", "monitoring.serviceMonitor.enabled=true",
		"monitoring.serviceMonitor.labels.prometheus=b", "monitoring.podMonitor.enabled=true", "monitoring.podMonitor.labels.prometheus=c",
		"monitoring.podMonitor.namespaces={shop,bank}", "meshConfig.defaultConfig.statusPort=15099",
	}
}

// monitors returns the objects of monitoringKinds that the chart istiod renders, by kind.
func monitors(t *testing.T, h helm, values ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	for _, o := range objects(t, h.run(t, append([]string{"template", "istiod", chart("istiod"), "-n", "istio-system"}, arguments(values)...)...)) {
		if monitoringKinds()[o.GetKind()] != "" {
			found[o.GetKind()] = o
		}
	}
	return found
}

// TestMonitoring: without the values no object is rendered whose kind the cluster may lack. With
// them, the labels are set, the PrometheusRule contains the rule file, and the monitors select the
// Service of the revision and the namespaces.
func TestMonitoring(t *testing.T) {
	h := newHelm(t, "")
	if found := monitors(t, h); len(found) > 0 {
		t.Errorf("by default there are %v", found)
	}
	found := monitors(t, h, append(monitoring(), "revision=canary")...)
	for kind, label := range map[string]string{"PrometheusRule": "a", "ServiceMonitor": "b", "PodMonitor": "c"} {
		if o := found[kind]; o == nil || o.GetLabels()["prometheus"] != label || !strings.HasSuffix(o.GetName(), "-canary") {
			t.Fatalf("%s: %v", kind, o)
		}
	}
	text, err := os.ReadFile(filepath.Join(h.root, chart("istiod"), "monitoring", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules map[string]any
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules, found["PrometheusRule"].Object["spec"]); diff != "" {
		t.Errorf("the rule file (-) and the PrometheusRule (+) differ:\n%s", diff)
	}
	selected, _, err := unstructured.NestedStringMap(found["ServiceMonitor"].Object, "spec", "selector", "matchLabels")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects(t, h.run(t, "template", "istiod", chart("istiod"), "-n", "istio-system", "--set", "revision=canary")) {
		for k, v := range selected {
			if o.GetKind() == "Service" && o.GetLabels()[k] != v {
				t.Errorf("the Service has %s=%s, the ServiceMonitor selects %s", k, o.GetLabels()[k], v)
			}
		}
	}
	namespaces, _, err := unstructured.NestedStringSlice(found["PodMonitor"].Object, "spec", "namespaceSelector", "matchNames")
	if err != nil || !cmp.Equal(namespaces, []string{"shop", "bank"}) {
		t.Errorf("the PodMonitor selects the namespaces %v, %v", namespaces, err)
	}
}

// TestDashboards: with the value, each dashboard is a ConfigMap with the unchanged file; without
// it, none is rendered.
func TestDashboards(t *testing.T) {
	h := newHelm(t, "")
	found := func(values ...string) map[string]string {
		texts := map[string]string{}
		for _, o := range objects(t, h.run(t, append([]string{"template", "istiod", chart("istiod"), "-n", "istio-system"}, arguments(values)...)...)) {
			if o.GetKind() != "ConfigMap" || o.GetLabels()["grafana_dashboard"] != "1" {
				continue
			}
			data, _, err := unstructured.NestedStringMap(o.Object, "data")
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(texts, data)
		}
		return texts
	}
	if list := found(); len(list) > 0 {
		t.Errorf("by default there are %d dashboards", len(list))
	}
	files, err := filepath.Glob(filepath.Join(h.root, chart("istiod"), "monitoring", "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		want["meshpilot-"+filepath.Base(f)] = strings.TrimSpace(string(text))
	}
	got := found("monitoring.dashboards.enabled=true", "monitoring.dashboards.annotations.grafana_folder=mesh")
	if diff := cmp.Diff(want, got); len(want) < 4 || diff != "" {
		t.Errorf("%d files; files (-) and ConfigMaps (+) differ:\n%s", len(want), diff)
	}
}

// TestMonitoringKinds installs the chart on an API server that has the kinds of the Prometheus
// operator: it stores everything as it was rendered, so that no field is unknown.
func TestMonitoringKinds(t *testing.T) {
	prometheus.Require(t)
	files, err := prometheus.OperatorKinds(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{CRDs: files})
	h := newHelm(t, c.Kubeconfig())
	h.run(t, append([]string{"install", "istiod", chart("istiod"), "-n", "istio-system", "--create-namespace"}, arguments(monitoring())...)...)
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	rendered := monitors(t, h, monitoring()...)
	for kind, resource := range monitoringKinds() {
		want := rendered[kind]
		got, err := client.Resource(schema.GroupVersionResource{Group: "monitoring.coreos.com", Version: "v1", Resource: resource}).
			Namespace("istio-system").Get(t.Context(), want.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if diff := cmp.Diff(want.Object["spec"], got.Object["spec"]); diff != "" {
			t.Errorf("%s: rendered (-) and stored (+) differ:\n%s", kind, diff)
		}
	}
}
