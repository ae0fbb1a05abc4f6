package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/samples/bookinfo/mesh"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// mistakes is a file in which only one object is valid.
const mistakes = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: unknown-field, namespace: default}
spec:
  hosts: [details]
  http:
  - rout:
    - destination: {host: details}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: bad-regex, namespace: default}
spec:
  hosts: [details]
  http:
  - match: [{uri: {regex: "a(b"}}]
    route:
    - destination: {host: details}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: unknown-subset, namespace: default}
spec:
  hosts: [nobody.example.com]
  http:
  - route:
    - destination: {host: reviews, subset: v9}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: good, namespace: default}
spec:
  hosts: [ratings]
  http:
  - match: [{uri: {prefix: /good}}]
    directResponse: {status: 299, body: {string: "the good one"}}
  - route:
    - destination: {host: ratings}
`

const broken = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: [\n"

type problem struct{ Kind, Name, Origin, Field, Reason string }

// TestMistakesAreNamedAndAffectNothingElse: each invalid document is reported with file, field and
// reason, in the log and at /debug/problemz, while the valid object of the same file is used and
// all traffic continues.
func TestMistakesAreNamedAndAffectNothingElse(t *testing.T) {
	m := bookinfoMesh(t)
	caller := mesh.NewCaller(m.Workload("client").Node)
	defer caller.Close()
	load := mesh.StartLoad(m.Workload("client").Node, mesh.Reviews, 50)

	dir := filepath.Join(shared.dir, "config")
	for name, text := range map[string]string{"mistakes.yaml": mistakes, "broken.yaml": broken} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
	}

	var seen []problem
	for _, want := range []struct{ name, origin, field, reason string }{
		{"unknown-field", "mistakes.yaml", "rout", ""},
		{"bad-regex", "mistakes.yaml", "spec.http[0].match[0].uri", "regex"},
		{"unknown-subset", "mistakes.yaml", "spec.http[0].route[0].destination.subset", `"v9"`},
		{"", "broken.yaml", "", ""},
	} {
		serving.Eventually(t, settleTime, "problem "+want.name+" of "+want.origin, func() error {
			seen = nil
			debugPage(t, m, "/debug/problemz", &seen)
			for _, p := range seen {
				if p.Name == want.name && strings.Contains(p.Origin, want.origin) && strings.Contains(p.Field+p.Reason, want.field) &&
					strings.Contains(strings.ToLower(p.Reason+p.Field), want.reason) {
					return nil
				}
			}
			return fmt.Errorf("not among %+v", seen)
		})
	}
	log, err := os.ReadFile(m.ControlPlane.Process().LogPath())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"unknown-field", "bad-regex", "unknown-subset", "broken.yaml"} {
		if !strings.Contains(string(log), name) {
			t.Errorf("the log does not name %s", name)
		}
	}

	serving.Eventually(t, settleTime, "the good object", func() error {
		if a := caller.Get(t.Context(), "http://ratings:9080/good"); a.Status != 299 {
			return fmt.Errorf("%s", a)
		}
		return nil
	})
	if tally := load.Stop(); tally.Sent == 0 || tally.Failed > 0 {
		t.Errorf("meanwhile %d of %d requests failed: %v", tally.Failed, tally.Sent, tally.Failures)
	}
}

// TestBrokenEditKeepsTheLastGoodVersion: an object whose new version is invalid keeps its previous
// version.
func TestBrokenEditKeepsTheLastGoodVersion(t *testing.T) {
	m := bookinfoMesh(t)
	caller := mesh.NewCaller(m.Workload("client").Node)
	defer caller.Close()
	rule := func(body string) string {
		return `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: kept, namespace: default}
spec:
  hosts: [details]
  http:
` + body
	}
	path := filepath.Join(shared.dir, "config", "kept.yaml")
	defer os.Remove(path)
	answer := func(want int) func() error {
		return func() error {
			if a := caller.Get(t.Context(), "http://details:9080/kept"); a.Status != want {
				return fmt.Errorf("%s", a)
			}
			return nil
		}
	}
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(rule("  - directResponse: {status: 298}\n"))
	serving.Eventually(t, settleTime, "the first version", answer(298))
	write(rule("  - directResponse: {status: 1000}\n"))
	serving.Eventually(t, settleTime, "the problem", func() error {
		var list []problem
		debugPage(t, m, "/debug/problemz", &list)
		for _, p := range list {
			if p.Name == "kept" && strings.Contains(p.Field, "status") {
				return nil
			}
		}
		return fmt.Errorf("not among %+v", list)
	})
	if err := answer(298)(); err != nil {
		t.Errorf("after the broken edit: %v", err)
	}
	write(rule("  - directResponse: {status: 297}\n"))
	serving.Eventually(t, settleTime, "the mended version", answer(297))
}
