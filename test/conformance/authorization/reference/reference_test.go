package reference

import (
	"go/parser"
	"go/token"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	security "istio.io/api/security/v1beta1"
)

// TestIndependent checks that the package imports nothing of this module.
func TestIndependent(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range parsed.Imports {
			if strings.Contains(i.Path.Value, "github.com/meshpilot") || strings.Contains(i.Path.Value, "istio.io/istio") {
				t.Errorf("%s imports %s", f, i.Path.Value)
			}
		}
	}
}

// TestDocumentedForms checks the string forms, templates and path levels with the examples of the
// documentation.
func TestDocumentedForms(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		want           bool
	}{
		{"abc", "abc", true}, {"abc", "abcd", false}, {"abc*", "abc", true}, {"abc*", "abcd", true}, {"*abc", "xabc", true}, {"*abc", "abcx", false},
		{"*", "x", true}, {"*", "", false},
	} {
		if got := matchesText(c.pattern, c.value); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.value, got)
		}
	}
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"/foo/{*}", "/foo/bar", true}, {"/foo/{*}", "/foo/bar/baz", false}, {"/foo/{*}", "/foo/", false},
		{"/foo/{**}/", "/foo/bar/", true}, {"/foo/{**}/", "/foo//", true}, {"/foo/{**}/", "/foo/bar", false},
		{"/foo/{*}/bar/{**}", "/foo/buzz/bar/", true}, {"/foo/{*}/bar/{**}", "/foo/buzz/bar/baz", true}, {"/foo/{*}/bar/{**}", "/foo/bar/baz", false},
	} {
		m := matcher{call: Call{Path: c.path}}
		if got := m.matchesPath(c.pattern); got != c.want {
			t.Errorf("%q matches %q: %v", c.pattern, c.path, got)
		}
	}
	for _, c := range [][3]string{
		{"NONE", "/a/../b//c", "/a/../b//c"}, {"BASE", "/a/../b//c", "/b//c"}, {"BASE", `\da`, "/da"}, {"BASE", "/%61/.", "/a/"},
		{"MERGE_SLASHES", "/a//b///c", "/a/b/c"}, {"DECODE_AND_MERGE_SLASHES", "/a%2fb%5Cc", "/a/b/c"}, {"BASE", "/../..", "/"},
	} {
		if got := Normalize(c[0], c[1]); got != c[2] {
			t.Errorf("%s of %q is %q, want %q", c[0], c[1], got, c[2])
		}
	}
}

// TestDocumentedPolicies evaluates policies of the documentation.
func TestDocumentedPolicies(t *testing.T) {
	call := Call{HTTP: true, Principal: "cluster.local/ns/test/sa/x", SourceIP: netip.MustParseAddr("10.0.0.1"), Port: 80, Method: "GET", Path: "/info"}
	for _, c := range []struct {
		name, policy string
		http, want   bool
	}{
		{"allow nothing", `{}`, true, false},
		{"allow all", `{rules: [{}]}`, true, true},
		{"a DENY that matches", `{action: DENY, rules: [{from: [{source: {notNamespaces: [foo]}}]}]}`, true, false},
		{"a DENY that does not match", `{action: DENY, rules: [{to: [{operation: {methods: [POST]}}]}]}`, true, true},
		{"fields are ANDed", `{rules: [{from: [{source: {namespaces: [test], notIpBlocks: ["10.0.0.1"]}}]}]}`, true, false},
		{"an ALLOW of requests for raw connections", `{rules: [{to: [{operation: {methods: [GET]}}]}]}`, false, false},
		{"a DENY of requests for raw connections", `{action: DENY, rules: [{to: [{operation: {methods: [POST], ports: ["80"]}}]}]}`, false, false},
		{"methods in other case", `{action: DENY, rules: [{to: [{operation: {methods: [get]}}]}]}`, true, false},
		{"audit", `{action: AUDIT, rules: [{}]}`, true, true},
	} {
		raw, err := yaml.YAMLToJSON([]byte(c.policy))
		if err != nil {
			t.Fatal(err)
		}
		spec := new(security.AuthorizationPolicy)
		if err := protojson.Unmarshal(raw, spec); err != nil {
			t.Fatal(err)
		}
		call := call
		call.HTTP = c.http
		w := Workload{Namespace: "foo", TrustDomains: []string{"cluster.local"}}
		if got := Evaluate([]Policy{{Namespace: "foo", Name: "p", Spec: spec}}, w, call); got.Allowed != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
