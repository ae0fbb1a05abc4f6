package inject

import (
	"testing"

	"github.com/meshpilot/meshpilot/test/support/golden"
)

// small are settings with one small template.
func small(t *testing.T) *Settings {
	t.Helper()
	s := settings(t, caseSettings{})
	c, err := ParseConfig([]byte(`
policy: disabled
templates:
  sidecar: |
    spec:
      containers:
      - name: istio-proxy
        image: proxy
        args: ["{{ .TypeMeta.APIVersion }} {{ .TypeMeta.Kind }} {{ .DeploymentMeta.Namespace }}/{{ .DeploymentMeta.Name }}"]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Config = c
	return s
}

// TestManifests injects manifests, twice.
func TestManifests(t *testing.T) {
	golden.Run(t, "testdata/manifests/*.txtar", func(t *testing.T, c *golden.Case) {
		s, o := small(t), ManifestOptions{Namespace: "flag"}
		out, warnings, err := s.InjectManifest(c.Input("in.yaml"), o)
		said := ""
		for _, w := range warnings {
			said += w + "\n"
		}
		if err != nil {
			said += "error: " + err.Error() + "\n"
		}
		c.Compare(t, "warnings.txt", []byte(said))
		c.Compare(t, "out.yaml", out)
		if err != nil {
			return
		}
		again, _, err := s.InjectManifest(out, o)
		if err != nil || string(again) != string(out) {
			t.Errorf("a second injection returns %v\n%s", err, again)
		}
	})
}
