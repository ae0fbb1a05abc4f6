package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube/inject"
	"github.com/meshpilot/meshpilot/manifests/helmvalues"
	"github.com/meshpilot/meshpilot/test/support/longtest"
)

// TestMistakesInValues: a mistake in the values is an error that names the value and the known
// values there, or the reason why it is rejected. Values that charts of service meshes are known to
// ignore have an effect.
func TestMistakesInValues(t *testing.T) {
	h := newHelm(t, "")
	for _, c := range []struct{ chart, set, want string }{
		{"istiod", "pdb.minAvalable=2", "'/pdb/minAvalable': value must be 'one of the known names here: maxUnavailable, minAvailable,"},
		{"istiod", "autoscalemin=2", "invalid propertyName 'autoscalemin'"},
		{"istiod", "autoscalemin=2", "value must be one of 'affinity', 'autoscaleBehavior', 'autoscaleEnabled', 'autoscaleMax', 'autoscaleMin'"},
		{"istiod", "pilot.autoscalemin=2", "'/pilot/autoscalemin': value must be 'one of the known names here: affinity, autoscaleB"},
		{"istiod", "global.networkPolcy.enabled=true", "global.networkPolcy is not a value of the chart: known are global.nativeNftables, global.network,"},
		{"istiod", "global.proxy.loglevel=debug", "'/global/proxy/loglevel': value must be 'one of the known names here: autoInject,"},
		{"istiod", "autoscaleEnabled=yes", "'/autoscaleEnabled': got string, want"},
		{"istiod", "profile=ambient", "profile=\"ambient\" is rejected: ambient mode is not supported"},
		{"istiod", "profile=production", "'/profile': value must be one of"},
		{"istiod", "global.waypoint.resources.requests.cpu=1", "is rejected: ambient mode is not supported"},
		{"istiod", "podDisruptionBudget.minAvailable=2", "is rejected: it is called pdb"},
		{"gateway", "service.typ=NodePort", "'/service/typ': value must be 'one of the known names here: allocateLoadBalancerNodePorts,"},
		{"cni", "ambient.enabled=true", "ambient.enabled=true is rejected: ambient mode is not supported"},
		{"base", "crds.enabled=false", "crds.enabled=false is rejected: it is called base.enableCRDTemplates"},
	} {
		out, err := h.try(t, "template", "x", chart(c.chart), "--set", c.set)
		if err == nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: --set %s: error %v, want %q in\n%s", c.chart, c.set, err, c.want, out)
		}
	}
	for _, c := range []struct{ chart, set, object string }{
		// Defaults of the chart before ADR 47, which helm upgrade --reuse-values repeats.
		{"istiod", "podDisruptionBudget.enabled=true,podDisruptionBudget.minAvailable=1,validation.enabled=true", "Deployment/istio-system/istiod"},
		{"base", "crds.enabled=true", "CustomResourceDefinition//virtualservices.networking.istio.io"},
		{"istiod", "global.configValidation=false", "-ValidatingWebhookConfiguration//istio-validator-istio-system"},
		{"istiod", "pdb.minAvailable=1,autoscaleMin=2", "PodDisruptionBudget/istio-system/istiod"},
		{"istiod", "global.networkPolicy.enabled=true", "NetworkPolicy/istio-system/istiod"},
		{"gateway", "global.networkPolicy.enabled=true", "NetworkPolicy/istio-system/x"},
		{"cni", "cni.global.networkPolicy.enabled=true", "NetworkPolicy/istio-system/istio-cni"},
	} {
		object, unwanted := strings.CutPrefix(c.object, "-")
		list := names(t, h.run(t, "template", "x", chart(c.chart), "-n", "istio-system", "--set", c.set))
		if slices.Contains(list, object) == unwanted {
			t.Errorf("%s: --set %s: %s: %v", c.chart, c.set, c.object, list)
		}
	}
}

// TestPartOfAnotherChart: in a chart that contains the chart, global may have values of others.
func TestPartOfAnotherChart(t *testing.T) {
	h := newHelm(t, "")
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "charts", "gateway"), os.DirFS(filepath.Join(h.root, chart("gateway")))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"Chart.yaml":  "{apiVersion: v2, name: all, version: 1.0.0}",
		"values.yaml": "{global: {registry: example.com}, gateway: {name: edge, service: {type: NodePort}}}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out := h.run(t, "template", "x", dir)
	if !slices.Contains(names(t, out), "Deployment/default/edge") || !strings.Contains(out, "type: NodePort") {
		t.Errorf("it renders:\n%s", out)
	}
}

// example is a value with which a chart is rendered, in addition to the values in with.
type example struct {
	Value any            `json:"value"`
	With  map[string]any `json:"with"`
}

// TestValues: each value of the table, which contains all of Istio's, changes the rendered objects
// or the injected pod, or is an error with the reason of the table.
func TestValues(t *testing.T) {
	longtest.Test(t)
	h := newHelm(t, "")
	text, err := os.ReadFile("testdata/examples.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var examples map[string]map[string]example
	if err := yaml.UnmarshalStrict(text, &examples); err != nil {
		t.Fatal(err)
	}
	for _, chart := range helmvalues.Charts() {
		table, err := helmvalues.Values(chart)
		if err != nil {
			t.Fatal(err)
		}
		for name := range examples[chart] {
			if !slices.ContainsFunc(table, func(v helmvalues.Value) bool { return v.Name == name }) {
				t.Errorf("there is an example of %s, which is no value of %s", name, chart)
			}
		}
		r := &renderer{helm: h, chart: chart, defaults: h.defaults(t, chart)}
		for _, v := range table {
			t.Run(chart+"/"+v.Name, func(t *testing.T) { r.checkValue(t, v, examples[chart][v.Name]) })
		}
	}
}

// defaults returns the defaults of a chart.
func (h helm) defaults(t *testing.T, name string) map[string]any {
	t.Helper()
	var all map[string]map[string]any
	if err := yaml.Unmarshal([]byte(h.run(t, "show", "values", chart(name))), &all); err != nil {
		t.Fatal(err)
	}
	return all["_internal_defaults_do_not_set"]
}

// renderer renders a chart with values.
type renderer struct {
	helm
	chart    string
	defaults map[string]any
	plain    map[string]string // output by values in YAML
}

func (r *renderer) checkValue(t *testing.T, v helmvalues.Value, e example) {
	for value, reason := range v.RejectedValues {
		r.expectRejected(t, v.Name, value, reason)
	}
	if e.Value == nil {
		e.Value = exampleOf(v, valueAt(r.defaults, v.Name))
	}
	if v.Rejected != "" {
		r.expectRejected(t, v.Name, e.Value, v.Rejected)
		return
	}
	values := tree(v.Name, e.Value, e.With)
	findings, err := helmvalues.Check(r.chart, values)
	if err != nil || len(findings) > 0 {
		t.Errorf("Check(%v): %v %v", values, findings, err)
	}
	if v.Unchanged != "" {
		r.render(t, values)
		return
	}
	key := fmt.Sprint(e.With)
	if r.plain == nil {
		r.plain = map[string]string{}
	}
	if r.plain[key] == "" {
		r.plain[key] = r.effects(t, r.render(t, e.With))
	}
	if r.effects(t, r.render(t, values)) == r.plain[key] {
		t.Errorf("%s=%v (with %v) has no effect", v.Name, e.Value, e.With)
	}
}

func (r *renderer) expectRejected(t *testing.T, name string, value any, reason string) {
	t.Helper()
	values := tree(name, value, nil)
	out, err := r.try(t, "template", "x", chart(r.chart), "-n", "istio-system", "-f", valuesFile(t, values))
	if err == nil || !strings.Contains(out, name) || !strings.Contains(out, "is rejected: "+reason) {
		t.Errorf("%s=%v: error %v, want the reason %q in\n%.400s", name, value, err, reason, out)
	}
	findings, err := helmvalues.Check(r.chart, values)
	if err != nil || len(findings) != 1 || findings[0].Reason != reason {
		t.Errorf("Check(%v): %v %v", values, findings, err)
	}
}

func (r *renderer) render(t *testing.T, values map[string]any) string {
	t.Helper()
	return r.run(t, "template", "x", chart(r.chart), "-n", "istio-system", "-f", valuesFile(t, values))
}

func valuesFile(t *testing.T, values map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// tree returns values with one more, whose name is a path.
func tree(name string, value any, with map[string]any) map[string]any {
	root := map[string]any{}
	copyInto(root, with)
	keys := strings.Split(name, ".")
	at := root
	for _, key := range keys[:len(keys)-1] {
		if _, ok := at[key].(map[string]any); !ok {
			at[key] = map[string]any{}
		}
		at, _ = at[key].(map[string]any)
	}
	at[keys[len(keys)-1]] = value
	return root
}

func copyInto(to, from map[string]any) {
	for k, v := range from {
		if below, ok := v.(map[string]any); ok {
			child := map[string]any{}
			copyInto(child, below)
			v = child
		}
		to[k] = v
	}
}

func valueAt(values map[string]any, name string) any {
	v, _, _ := unstructured.NestedFieldNoCopy(values, strings.Split(name, ".")...) // absent is nil
	return v
}

// exampleOf returns a value of the type that is not the default.
func exampleOf(v helmvalues.Value, set any) any {
	for _, e := range v.Enum {
		if e != "" && e != "default" && !reflect.DeepEqual(e, set) {
			return e
		}
	}
	on, _ := set.(bool)
	if v.Rejected != "" && slices.Contains(v.Accepts, any(true)) {
		on = true
	}
	switch v.Type {
	case "boolean":
		return !on
	case "array":
		return []any{"example"}
	case "object":
		return map[string]any{"example": "value"}
	case "", "scalar":
		return "example"
	default:
		return 7
	}
}

// effects returns a rendered chart without the values for injection, and instead the pods that are
// injected with them.
func (r *renderer) effects(t *testing.T, manifest string) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects(t, manifest) {
		if o.GetKind() == "ConfigMap" && strings.HasPrefix(o.GetName(), "istio-sidecar-injector") {
			unstructured.RemoveNestedField(o.Object, "data", inject.ValuesKey)
		}
		writeYAML(t, &b, o)
	}
	settings := injection(t, manifest)
	if settings == nil {
		return b.String()
	}
	for _, pod := range []string{
		`{metadata: {name: web}, spec: {containers: [{name: web, image: "web:1", ports: [{containerPort: 80}], readinessProbe: {httpGet: {port: 80}}}]}}`,
		`{metadata: {name: edge, annotations: {inject.istio.io/templates: gateway}}, spec: {containers: [{name: istio-proxy, image: auto}]}}`,
		`{metadata: {name: agent, annotations: {inject.istio.io/templates: grpc-agent}}, spec: {containers: [{name: web, image: "web:1"}]}}`,
	} {
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(pod), p); err != nil {
			t.Fatal(err)
		}
		writeYAML(t, &b, injectPod(t, settings, p))
	}
	return b.String()
}

func writeYAML(t *testing.T, b *strings.Builder, object any) {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(text)
}
