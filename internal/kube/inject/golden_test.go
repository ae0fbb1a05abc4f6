package inject

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/manifests"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

// plainPod is the pod that cases differ from.
const plainPod = `
metadata: {name: web, namespace: shop, labels: {app: web}}
spec: {containers: [{name: web, image: "web:1", ports: [{containerPort: 8080}]}]}
`

// settings are the built-in templates, with changes of the case: values and mesh configuration in YAML, and templates of its own.
func settings(t testing.TB, c caseSettings) *Settings {
	t.Helper()
	templates, err := manifests.InjectionTemplates()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range c.Templates {
		templates[name] = text
	}
	said := map[string]any{"policy": "enabled", "templates": templates}
	for k, v := range c.Config {
		said[k] = v
	}
	text, err := yaml.Marshal(said)
	if err != nil {
		t.Fatal(err)
	}
	s := &Settings{Revision: c.Revision}
	if s.Config, err = ParseConfig(text, nil); err != nil || len(s.Config.Faults) > 0 {
		t.Fatal(err, s.Config.Faults)
	}
	if text, err = manifests.InjectionValues(); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	join(values, c.Values)
	if text, err = yaml.Marshal(values); err != nil {
		t.Fatal(err)
	}
	if s.Values, err = ParseValues(text); err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.Marshal(c.Mesh); err != nil {
		t.Fatal(err)
	}
	if s.Mesh, err = mesh.ParseMeshConfig(text); err != nil {
		t.Fatal(err)
	}
	s.ProxyConfigs = c.objects(t)
	return s
}

type jsonText = json.RawMessage

type caseSettings struct {
	Values    map[string]any    `json:"values"`
	Mesh      map[string]any    `json:"mesh"`
	Config    map[string]any    `json:"config"`
	Templates map[string]string `json:"templates"`
	Revision  string            `json:"revision"`
	Native    bool              `json:"native"`
	Path      string            `json:"path"`
	// AssignsUsers is that of the request.
	AssignsUsers bool `json:"assignsUsers"`
	// ProxyConfigs are objects as users write them.
	ProxyConfigs []jsonText `json:"proxyConfigs"`
}

func (c caseSettings) objects(t testing.TB) []*config.Config {
	t.Helper()
	var list []*config.Config
	for _, o := range c.ProxyConfigs {
		d := decode.Object(o)
		if d.Config == nil {
			t.Fatal(d.Problems)
		}
		list = append(list, d.Config)
	}
	return list
}

// join lays a tree over another one.
func join(below, above map[string]any) {
	for k, v := range above {
		if a, ok := v.(map[string]any); ok {
			if b, ok := below[k].(map[string]any); ok {
				join(b, a)
				continue
			}
		}
		below[k] = v
	}
}

func readPod(t testing.TB, text []byte) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// injected returns the injected pod in YAML, and its warnings.
func injected(t testing.TB, s *Settings, c caseSettings, pod *corev1.Pod) (text, warnings []byte) {
	t.Helper()
	before := pod.DeepCopy()
	request := Request{
		Pod: pod, Namespace: "shop", Env: ParsePathEnv(c.Path), NativeSidecars: c.Native, AssignsUsers: c.AssignsUsers,
	}
	r, err := s.Inject(request)
	if err != nil {
		return []byte("refused: " + err.Error() + "\n"), nil
	}
	if a, b := show(t, before), show(t, pod); a != b {
		t.Errorf("injection modified its input:\n%s", diff.Diff("before", []byte(a), "after", []byte(b)))
	}
	checkEnvironment(t, r.Pod)
	once := show(t, r.Pod)
	request.Pod = r.Pod
	again, err := s.Inject(request)
	if err != nil {
		t.Fatal("the second injection:", err)
	}
	if twice := show(t, again.Pod); once != twice {
		t.Errorf("a second injection changes the pod:\n%s", diff.Diff("once", []byte(once), "twice", []byte(twice)))
	}
	return []byte(once), []byte(strings.Join(r.Warnings, "\n"))
}

// checkEnvironment fails the test if injection sets an environment variable of a container twice: kubectl warns about it, and
// server-side apply of the pod is an error.
func checkEnvironment(t testing.TB, pod *corev1.Pod) {
	t.Helper()
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		seen := map[string]bool{}
		for _, e := range c.Env {
			if seen[e.Name] {
				t.Errorf("container %s has the environment variable %s twice", c.Name, e.Name)
			}
			seen[e.Name] = true
		}
	}
}

func show(t testing.TB, pod *corev1.Pod) string {
	t.Helper()
	text, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(text), "status: {}\n")
}

// TestGolden injects the pod of each case. Cases without a section want.yaml show how the result differs from that of the pod
// base.yaml (a plain one) with the settings as they are by default.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		var changes caseSettings
		if err := yaml.UnmarshalStrict(c.Input("settings.yaml"), &changes); err != nil {
			t.Fatal(err)
		}
		pod := []byte(plainPod)
		if c.Has("pod.yaml") {
			pod = c.Input("pod.yaml")
		}
		got, warnings := injected(t, settings(t, changes), changes, readPod(t, pod))
		c.Compare(t, "warnings.txt", warnings)
		if c.Has("want.yaml") || strings.HasPrefix(string(got), "refused: ") {
			c.Compare(t, "want.yaml", got)
			return
		}
		base := []byte(plainPod)
		if c.Has("base.yaml") {
			base = c.Input("base.yaml")
		}
		plain, _ := injected(t, settings(t, caseSettings{}), caseSettings{}, readPod(t, base))
		c.Compare(t, "want.diff", withoutHead(diff.Diff("plain", plain, "case", got)))
	})
}

// withoutHead removes the header lines of a diff.
func withoutHead(text []byte) []byte {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "diff "),
			strings.HasPrefix(line, "--- plain"),
			strings.HasPrefix(line, "+++ case"):
		case strings.HasPrefix(line, "@@"):
			b.WriteString("@@\n")
		case strings.TrimSpace(line) != "":
			fmt.Fprintf(&b, "%s\n", strings.TrimRight(line, " \n"))
		}
	}
	return []byte(b.String())
}
