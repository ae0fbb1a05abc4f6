package retired

import (
	"flag"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"istio.io/api/annotation"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/model/api"
)

var update = flag.Bool("update", false, "rewrite docs/RETIRED.md")

func TestPage(t *testing.T) {
	const path = "../../../docs/RETIRED.md"
	if *update {
		if err := os.WriteFile(path, []byte(Page()), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != Page() {
		t.Errorf("%s differs from the table: go test ./internal/model/retired -update", path)
	}
}

// messages returns the messages of Istio's kinds, MeshConfig and ProxyConfig, by the last part of
// their names.
func messages() map[string][]protoreflect.MessageDescriptor {
	all := map[string][]protoreflect.MessageDescriptor{}
	seen := map[protoreflect.FullName]bool{}
	var add func(d protoreflect.MessageDescriptor)
	add = func(d protoreflect.MessageDescriptor) {
		if seen[d.FullName()] {
			return
		}
		seen[d.FullName()] = true
		name := MessageName(string(d.FullName()))
		all[name] = append(all[name], d)
		for i := range d.Fields().Len() {
			if m := d.Fields().Get(i).Message(); m != nil {
				add(m)
			}
		}
	}
	for _, k := range api.Kinds() {
		if k.Istio() {
			add(k.NewSpec().ProtoReflect().Descriptor())
		}
	}
	add((&meshconfig.MeshConfig{}).ProtoReflect().Descriptor())
	return all
}

// TestFields checks that the retired fields of the table are not in the API, and that the reserved
// fields of the API are in the table.
func TestFields(t *testing.T) {
	all := messages()
	for _, f := range Fields() {
		if len(all[f.Message]) == 0 {
			t.Errorf("no message %s", f.Message)
		}
		for _, d := range all[f.Message] {
			if d.Fields().ByJSONName(f.Name) != nil {
				t.Errorf("%s has the field %s", d.FullName(), f.Name)
			}
		}
		if f.Successor == "" {
			t.Errorf("%s.%s has no successor", f.Message, f.Name)
		}
	}
	reserved := 0
	for name, list := range all {
		for _, d := range list {
			for i := range d.ReservedNames().Len() {
				reserved++
				if _, ok := FieldOf(name, string(d.ReservedNames().Get(i))); !ok {
					t.Errorf("%s reserves %s, which is not in the table", name, d.ReservedNames().Get(i))
				}
			}
		}
	}
	if reserved < 30 {
		t.Errorf("the API reserves %d names: the test is not effective", reserved)
	}
}

func TestKinds(t *testing.T) {
	for _, k := range Kinds() {
		if _, known, _ := api.Lookup(k.Group, "", k.Kind); known {
			t.Errorf("%s of %s is a kind that is read", k.Kind, k.Group)
		}
	}
	for _, test := range []struct{ group, kind, want string }{
		{"authentication.istio.io", "MeshPolicy", "PeerAuthentication in the root namespace"},
		{"config.istio.io", "QuotaSpec", "rate limit"},
		{"config.istio.io", "memquota", "no Mixer"},
		{"networking.istio.io", "VirtualService", ""},
		{"authentication.istio.io", "Other", ""},
	} {
		k, ok := KindOf(test.group, test.kind)
		if ok != (test.want != "") || !strings.Contains(k.Successor, test.want) {
			t.Errorf("%s of %s: %q, %t; want %q", test.kind, test.group, k.Successor, ok, test.want)
		}
	}
}

func TestAnnotations(t *testing.T) {
	for _, a := range annotation.AllResourceAnnotations() {
		if r, ok := AnnotationOf(a.Name); ok {
			t.Errorf("%s is an annotation of the API, and retired by %s", a.Name, r.Name)
		}
	}
	a, ok := AnnotationOf("networking.istio.io/configScope")
	if want := "every namespace"; !ok || !strings.Contains(a.Reason(), want) || !strings.Contains(a.Reason(), "exportTo") {
		t.Errorf("%q, %t; want a reason that names the lost setting and its successor", a.Reason(), ok)
	}
	if _, ok := AnnotationOf("auth.istio.io/8000"); !ok {
		t.Error("auth.istio.io/8000 is not found by its beginning")
	}
}

func TestFlags(t *testing.T) {
	for _, list := range [][]Flag{DiscoveryFlags(), AgentFlags()} {
		seen := map[string]bool{}
		for _, f := range list {
			if seen[f.Name] || f.Successor == "" {
				t.Errorf("--%s: twice, or without a successor", f.Name)
			}
			seen[f.Name] = true
		}
	}
	fields := (&meshconfig.ProxyConfig{}).ProtoReflect().Descriptor().Fields()
	for _, f := range AgentFlags() {
		name, _, _ := strings.Cut(f.Field, ".")
		if name != "" && fields.ByJSONName(name) == nil {
			t.Errorf("--%s: ProxyConfig has no field %s", f.Name, name)
		}
	}
}
