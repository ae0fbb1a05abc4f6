package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/internal/diagnostics/cli"
	"github.com/meshpilot/meshpilot/internal/diagnostics/debug"
	"github.com/meshpilot/meshpilot/internal/diagnostics/lint"
	"github.com/meshpilot/meshpilot/internal/diagnostics/readapi"
	"github.com/meshpilot/meshpilot/internal/model/config/decode"
)

// danglingRules have references to a host, a subset and a gateway that do not exist, and danglingList one
// to a host in the second item of a list. undecodable has a value that does not decode.
const (
	danglingRules = `# Two objects, of which the second one has the mistakes.
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: s0, namespace: default}
spec: {host: s0, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: s0, namespace: default}
spec:
  hosts: [s0]
  gateways: [mesh, absent]
  http:
  - match: [{uri: {prefix: /new}}]
    route:
    - destination: {host: s0, subset: v9}
  - route:
    - destination:
        host: nowhere
`
	danglingList = `apiVersion: v1
kind: List
items:
- apiVersion: networking.istio.io/v1
  kind: Sidecar
  metadata: {name: default, namespace: shop}
  spec: {egress: [{hosts: ["./*"]}]}
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata: {name: listed, namespace: default}
  spec:
    hosts: [s1]
    http: [{route: [{destination: {host: s1}}], mirror: {host: elsewhere}}]
`
	undecodable = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: typo, namespace: default}
spec:
  hosts: [s1]
  http: [{rout: []}]
`
)

// TestProblemsHavePositionsOfFields checks that Problems of a folder have the line and column of the
// field on the debug page, in the read API and in pilotctl problems, and that these are the positions of
// pilotctl analyze. They move with an edit of the object.
func TestProblemsHavePositionsOfFields(t *testing.T) {
	files := map[string]string{"services.yaml": services(2), "rules.yaml": danglingRules, "list.yaml": danglingList,
		"typo.yaml": undecodable}
	c := start(t, files)
	want := map[string]string{
		"spec.http[0].route[0].destination.subset": "rules.yaml#2:16:31",
		"spec.http[1].route[0].destination.host":   "rules.yaml#2:19:9",
		"spec.gateways[1]":                         "rules.yaml#2:12:20",
		"spec.http[0].mirror.host":                 "list.yaml#1:13:58",
		"spec.http[0].rout":                        "typo.yaml#1:6:11",
	}
	c.eventuallyAtPositions(want)
	analyzed, err := lint.Analyze(lint.Options{Files: lintFiles(files)})
	if err != nil {
		t.Fatal(err)
	}
	for field, origin := range want {
		found := slices.ContainsFunc(analyzed.Findings, func(f lint.Finding) bool {
			at, _ := decode.ParseOrigin(origin)
			return f.Field == field && f.Position() == fmt.Sprintf("%s:%d:%d", at.File, at.Line, at.Column)
		})
		if !found {
			t.Errorf("pilotctl analyze does not find %s at %s: %v", field, origin, analyzed.Findings)
		}
	}

	c.write("rules.yaml", "# moved\n"+strings.Replace(danglingRules, "subset: v9", "subset: v8", 1))
	want["spec.http[0].route[0].destination.subset"] = "rules.yaml#2:17:31"
	want["spec.http[1].route[0].destination.host"] = "rules.yaml#2:20:9"
	want["spec.gateways[1]"] = "rules.yaml#2:13:20"
	c.eventuallyAtPositions(want)
}

// lintFiles returns files as pilotctl analyze reads them.
func lintFiles(files map[string]string) (list []lint.File) {
	for name, text := range files {
		list = append(list, lint.File{Name: name, Text: []byte(text)})
	}
	return list
}

// eventuallyAtPositions waits until the Problems of fields are at the positions, on the debug page, in the
// read API and in pilotctl.
func (c *controlPlane) eventuallyAtPositions(want map[string]string) {
	c.t.Helper()
	c.eventually("the positions", func() error {
		text, err := c.get("/debug/problemz")
		if err != nil {
			return err
		}
		var page []debug.Problem
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			return err
		}
		if err := checkPositions(page, want); err != nil {
			return fmt.Errorf("/debug/problemz: %w", err)
		}
		if text, err = c.get(readapi.Prefix + "/problems"); err != nil {
			return err
		}
		var answer readapi.Problems
		if err := json.Unmarshal([]byte(text), &answer); err != nil {
			return err
		}
		page = nil
		for _, p := range answer.Problems {
			page = append(page, p.Problem)
		}
		if err := checkPositions(page, want); err != nil {
			return fmt.Errorf("/api/v1/problems: %w", err)
		}
		var out bytes.Buffer
		command := cli.NewIn(cli.Environment{Variable: func(string) string { return "" }})
		command.SetOut(&out)
		command.SetErr(&out)
		command.SetArgs([]string{"problems", "--server", c.http})
		_ = command.ExecuteContext(c.t.Context()) // the exit code is 79, for the errors
		for field, origin := range want {
			if !strings.Contains(out.String(), "("+origin+"): "+field+": ") {
				return fmt.Errorf("pilotctl problems has no %s at %s:\n%s", field, origin, out.String())
			}
		}
		return nil
	})
}

// checkPositions returns an error unless the Problems of fields are these, at these positions.
func checkPositions(list []debug.Problem, want map[string]string) error {
	got := map[string]string{}
	for _, p := range list {
		if p.Field != "" {
			got[p.Field] = p.Origin
		}
	}
	for field, origin := range want {
		if got[field] != origin {
			return fmt.Errorf("%s is at %q, want %q", field, got[field], origin)
		}
	}
	return nil
}
