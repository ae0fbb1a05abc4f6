package lint

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshpilot/meshpilot/internal/model/code"
	"github.com/meshpilot/meshpilot/test/support/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// now is the time of all cases.
func now() time.Time { return time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) }

// TestGolden analyzes the inputs in testdata. A case has objects in config.yaml, and optionally
// mesh.yaml and networks.yaml; its findings are in the section findings.
func TestGolden(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, c *golden.Case) {
		o := Options{Files: []File{{"config.yaml", c.Input("config.yaml")}}, Now: now()}
		if text := c.Input("mesh.yaml"); len(text) > 0 {
			o.MeshConfig = File{"mesh.yaml", text}
		}
		if text := c.Input("networks.yaml"); len(text) > 0 {
			o.MeshNetworks = File{"networks.yaml", text}
		}
		r, err := Analyze(o)
		if err != nil {
			t.Fatal(err)
		}
		c.Compare(t, "findings", []byte(show(r.Findings)))
	})
}

// TestListOrder: of two items of a List with one name, the earlier one is used.
func TestListOrder(t *testing.T) {
	var list strings.Builder
	list.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for range 12 {
		list.WriteString("- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n")
	}
	r, err := Analyze(Options{Files: []File{{"config.yaml", []byte(list.String())}}, Now: now()})
	if err != nil {
		t.Fatal(err)
	}
	line := 4
	for _, f := range r.Findings {
		if f.Code != code.DuplicateObject {
			continue
		}
		if line++; f.Line != line || !strings.Contains(f.Message, "config.yaml:4,") {
			t.Errorf("line %d: %d: %s", line, f.Line, f.Message)
		}
	}
	if line != 15 {
		t.Errorf("the last duplicate is at line %d, want 15: %s", line, show(r.Findings))
	}
}

// show returns a line for each finding. An internal error fails the test by its text in the golden.
func show(list []Finding) string {
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%s %s %d:%d %s: %s: %s\n", f.Level, f.Code, f.Line, f.Column, f.Object(), f.Field, f.Message)
		if f.Code == code.InternalError {
			b.WriteString("AN INTERNAL ERROR\n")
		}
	}
	return b.String()
}
