package table

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dir makes a directory with one topic.
func dir(t *testing.T, topic string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"mesh/mesh.yaml": "", "mesh/common.yaml": "", "topic.txtar": topic,
		"mesh/callers.yaml": "- {name: web, namespace: shop, address: 10.66.1.1}\n- {name: tool, namespace: other, address: 10.66.1.2}",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const topic = `It shows something.
-- services.yaml --
- {name: a, ports: [http 80], versions: [v1, {name: v2, count: 2, labels: {x: "y"}}]}
- {name: b, namespace: other, headless: true}
-- hosts.yaml --
out.example.com: 10.97.0.1
-- cases.yaml --
- {name: first, call: "GET http://a/x?y", expect: {to: {a-v1: 30, a-v2: 70}, by: one}}
- {name: second, from: tool, call: "GET http://a.shop:8080/", headers: {x: [b, a], w: c}}
- {name: third, send: bytes, to: "out.example.com:9000"}
- {name: fourth, call: GET https://b-v1-0/}
`

func TestRead(t *testing.T) {
	table, err := Read(dir(t, topic))
	if err != nil {
		t.Fatal(err)
	}
	var targets, lines []string
	for _, c := range table.Topics[0].Cases {
		at, err := table.Target(c)
		if err != nil {
			t.Fatal(err)
		}
		targets = append(targets, at.String())
		lines = append(lines, c.Lines()...)
	}
	if got, want := strings.Join(targets, " "), "10.96.4.1:80 10.96.4.1:8080 10.97.0.1:9000 10.66.16.4:443"; got != want {
		t.Errorf("targets %s, want %s", got, want)
	}
	if got, want := strings.Join(lines, ", "), "w: c, x: b, x: a"; got != want {
		t.Errorf("header lines %q, want %q", got, want)
	}
	if got := table.Instance("10.66.16.3:8080"); got != "a-v2-1" {
		t.Errorf("the second pod of v2 is %s", got)
	}
	if got := table.Instance("10.1.1.1:80"); got != "10.1.1.1:80" {
		t.Errorf("Instance of an unknown address = %s", got)
	}
	first := table.Topics[0].Cases[0]
	if first.From != "web" || first.Times != 1 || first.Expect.Status != 200 || first.Expect.To["a-v2"] != 70 || first.ID() != "topic/first" {
		t.Errorf("read as %+v", first)
	}
	objects := string(table.Objects())
	for _, want := range []string{`"clusterIP":"None"`, `"podIP":"10.66.16.1"`, `"x":"y"`, `"targetPort":8080`} {
		if !strings.Contains(objects, want) {
			t.Errorf("no %s in the objects:\n%s", want, objects)
		}
	}
	if _, err := table.Resolve("a", "other"); err == nil {
		t.Error("a name alone is known in another namespace")
	}
	if got, err := table.Resolve("[::1]", "shop"); err != nil || got != netip.IPv6Loopback() {
		t.Errorf("an address is %s, %v", got, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"-- cases.yaml --\n":                            "no description before the first section",
		"x\n-- cases.yml --\n":                          "means nothing",
		"x\n-- cases.yaml --\n- {name: a, cal: b}":      "unknown field",
		"x\n-- cases.yaml --\n- {name: a}":              "neither call nor send",
		"x\n-- cases.yaml --\n- {name: a, send: bytes}": "needs a destination",
		"x\n-- cases.yaml --\n- {call: GET http://a/}":  "cases have names",
		"x\n-- cases.yaml --\n- {name: a, call: GET http://a/}\n- {name: a, call: GET http://b/}":                   "each another",
		"x\n-- cases.yaml --\n- {name: a, from: nobody, call: GET http://a/}":                                       "no caller",
		"x\n-- instances.yaml --\na: 10.0.0.1\n-- services.yaml --\n- {name: a}\n- {name: a}\n-- cases.yaml --\n[]": "a-v1-0 is",
	} {
		if _, err := Read(dir(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
