package offline_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/diagnostics/diff"
	"github.com/meshpilot/meshpilot/internal/diagnostics/diff/offline"
	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestCompare shows reports. A case has from.yaml, and to.yaml or change.yaml and the keys of deleted
// objects; mesh.yaml is the MeshConfig.
func TestCompare(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		before := offline.DecodeObjects("from.yaml", c.Input("from.yaml"))
		after := offline.DecodeObjects("to.yaml", c.Input("to.yaml"))
		if !c.Has("to.yaml") {
			var deleted []config.Key
			for text := range strings.FieldsSeq(string(c.Input("delete"))) {
				parts := strings.Split(text, "/")
				deleted = append(deleted, config.Key{Kind: api.Kind(parts[0]), Namespace: parts[1], Name: parts[2]})
			}
			after = before.Overlay(offline.DecodeObjects("change.yaml", c.Input("change.yaml")), deleted...)
		}
		r, err := offline.Compare(before, after, offline.Options{MeshConfig: c.Input("mesh.yaml")})
		if err != nil {
			t.Fatal(err)
		}
		c.Compare(t, "text", []byte(r.Text()))
		if c.Has("markdown") {
			c.Compare(t, "markdown", []byte(r.Markdown()))
		}
		back := new(diff.Report)
		if js, err := json.Marshal(r); err != nil || json.Unmarshal(js, back) != nil || back.Text() != r.Text() {
			t.Errorf("JSON does not hold all of the report: %s, %v", js, err)
		}
		same, err := offline.Compare(before, before, offline.Options{MeshConfig: c.Input("mesh.yaml")})
		if err != nil || !same.Empty() {
			t.Errorf("the mesh differs from itself: %v %v", cmp.Diff(new(diff.Report), same), err)
		}
	})
}
