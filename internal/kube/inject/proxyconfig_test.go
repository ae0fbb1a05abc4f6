package inject

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

// TestProxyConfigObjects checks the effect of each field of a ProxyConfig object on a pod that it
// selects and on one that it does not select.
func TestProxyConfigObjects(t *testing.T) {
	const object = `{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: x, namespace: shop},
  spec: {selector: {matchLabels: {app: web}}, concurrency: 7, environmentVariables: {COLOR: green}, image: {imageType: distroless}}}`
	body, err := yaml.YAMLToJSON([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	s := settings(t, caseSettings{ProxyConfigs: []jsonText{body}})
	effects := []string{`"concurrency":7`, "name: COLOR\n      value: green", "-distroless"}
	chosen := readPod(t, []byte(plainPod))
	other := chosen.DeepCopy()
	other.Labels["app"] = "other"
	for _, effect := range effects {
		if text, _ := injected(t, s, caseSettings{}, chosen); !strings.Contains(string(text), effect) {
			t.Errorf("%s is not in\n%s", effect, text)
		}
		if text, _ := injected(t, s, caseSettings{}, other); strings.Contains(string(text), effect) {
			t.Errorf("%s is in a pod that was not selected", effect)
		}
	}
}

// TestProxyConfigOfPodWithoutLabels: a pod's annotation overrides the ProxyConfig object of its
// namespace also if the pod has no labels.
func TestProxyConfigOfPodWithoutLabels(t *testing.T) {
	body, err := yaml.YAMLToJSON([]byte(
		`{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: x, namespace: shop}, spec: {concurrency: 7}}`))
	if err != nil {
		t.Fatal(err)
	}
	objects := caseSettings{ProxyConfigs: []jsonText{body}}.objects(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"proxy.istio.io/config": "concurrency: 3"}}}
	for _, labels := range []map[string]string{nil, {}, {"app": "web"}} {
		pod.Labels = labels
		c, _, err := EffectiveProxyConfig(mesh.DefaultMeshConfig(), objects, pod, "shop")
		if err != nil || c.GetConcurrency().GetValue() != 3 {
			t.Errorf("labels %v: concurrency %v, error %v; want 3", labels, c.GetConcurrency(), err)
		}
	}
}

// TestMeshConfigFields checks the fields of a MeshConfig that only injection reads.
func TestMeshConfigFields(t *testing.T) {
	for field, c := range map[string]struct {
		mesh   map[string]any
		effect string
		gone   bool // the effect is that the text is absent
	}{
		"enablePrometheusMerge": {map[string]any{"enablePrometheusMerge": false}, "prometheus.io/scrape", true},
		"holdApplicationUntilProxyStarts": {
			map[string]any{"defaultConfig": map[string]any{"holdApplicationUntilProxyStarts": true}}, "- pilot-agent\n          - wait", false,
		},
		"imageType": {map[string]any{"defaultConfig": map[string]any{"image": map[string]any{"imageType": "debug"}}}, "-debug", false},
	} {
		without, _ := injected(t, settings(t, caseSettings{}), caseSettings{}, readPod(t, []byte(plainPod)))
		with, _ := injected(t, settings(t, caseSettings{Mesh: c.mesh}), caseSettings{}, readPod(t, []byte(plainPod)))
		if strings.Contains(string(without), c.effect) != c.gone || strings.Contains(string(with), c.effect) == c.gone {
			t.Errorf("%s has no effect:\n%s", field, with)
		}
	}
}
