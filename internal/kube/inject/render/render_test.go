package render

import (
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/meshpilot/meshpilot/internal/model/mesh"
)

func dataWith(value string) Data {
	return Data{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "web",
			Annotations: map[string]string{"a": value},
			Labels:      map[string]string{"l": "x"},
		},
		Spec:        corev1.PodSpec{Containers: []corev1.Container{{Name: "c1"}, {Name: "c2"}}},
		ProxyConfig: mesh.DefaultProxyConfig(),
		MeshConfig:  mesh.DefaultMeshConfig(),
		Values:      map[string]any{"text": "a: b\nc: d", "list": []any{"x", "y"}},
	}
}

func run(t testing.TB, template, value string) (string, error) {
	t.Helper()
	x, err := Parse("test", template, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.Execute(dataWith(value))
	return string(out), err
}

// TestValuesInTheirPlaces puts values where templates may have them.
func TestValuesInTheirPlaces(t *testing.T) {
	const a = `{{ index .ObjectMeta.Annotations "a" }}`
	for _, c := range []struct{ name, template, value, want string }{ // no want: refused
		{"in double quotes", `x: "` + a + `"`, "say \"hi\"\n\\", `x: "say \"hi\"\u000a\\"`},
		{"in single quotes", `x: '` + a + `'`, "it's", `x: 'it''s'`},
		{"a line break in single quotes", `x: '` + a + `'`, "a\nb", ""},
		{"alone", `x: ` + a, "a-b:c/d@e=f", `x: a-b:c/d@e=f`},
		{"alone, as a map", `x: ` + a, "a: b", ""},
		{"alone, as a comment", `x: ` + a, "a #b", ""},
		{"alone, with a line", `x: ` + a, "a\ny: b", ""},
		{"alone, with another kind of line", `x: ` + a, "a\u2028y: b", ""},
		{"alone, as a collection", `x: ` + a, "{y: b}", ""},
		{"alone, as an alias", `x: ` + a, "*y", ""},
		{"alone, in quotes of its own", `x: {{ index .ObjectMeta.Annotations "a" | quote }}`, "a: \"b", `x: "a: \"b"`},
		{"alone, in other quotes of its own", `x: {{ index .ObjectMeta.Annotations "a" | squote }}`, "a' b: 'c", ""},
		{"behind other text", `- --flag=` + a, "[a]", `- --flag=[a]`},
		{"behind other text, as a map", `- --flag` + a, ": b", ""},
		{"behind a colon", `- a:` + a, " b", ""},
		{"behind a dash", `-` + a, " b", ""},
		{"in a flow collection", `x: [` + a + `, b]`, "a", `x: [a, b]`},
		{"two in a flow collection", `x: [` + a + `, b]`, "a, c", ""},
		{"in quotes in a flow collection", `x: {k: "` + a + `"}`, `", evil: "`, `x: {k: "\", evil: \""}`},
		{"in a block", "x: |\n  " + a + "\ny: b", "a: b # \"'", "x: |\n  a: b # \"'\ny: b"},
		{"in a block, with a line", "x: |\n  " + a, "a\nb", ""},
		{"behind a block", "- x: |\n    text\n  y: \"" + a + "\"", `"`, "- x: |\n    text\n  y: \"\\\"\""},
		{"behind a block of an item", "- |\n  text\n- \"" + a + "\"", `"`, "- |\n  text\n- \"\\\"\""},
		{"in a comment", "# " + a + "\nx: y", "a: \"b", "# a: \"b\nx: y"},
		{"in a comment, with a line", "# " + a, "a\nb: c", ""},
		{"behind escaped quotes", `x: "\"` + a + `"`, `"`, `x: "\"\""`},
		{"behind doubled quotes", `x: 'it''s ` + a + `'`, `'`, `x: 'it''s '''`},
		{"by a variable", `{{ $x := index .ObjectMeta.Annotations "a" }}x: {{ $x }}`, "a: b", ""},
		{"by a variable set in a loop", `{{ $x := "" }}{{ range list 1 2 }}{{ with $x }}x: {{ . }}{{ end }}{{ $x = index $.ObjectMeta.Annotations "a" }}{{ end }}`, "a: b", ""},
		{"by a template", `{{ define "d" }}x: {{ . }}{{ end }}{{ template "d" index .ObjectMeta.Annotations "a" }}`, "a: b", ""},
		{"by a template that has all", `{{ define "d" }}x: "{{ index .ObjectMeta.Annotations "a" }}"{{ end }}{{ template "d" . }}`, `"`, `x: "\""`},
		{"by with", `{{ with .ObjectMeta }}x: {{ .Annotations.a }}{{ end }}`, "a: b", ""},
		{"by range", `{{ range $k, $v := .ObjectMeta.Annotations }}{{ $k }}: {{ $v }}{{ end }}`, "a: b", ""},
		{"by a function", `x: {{ printf "%s" (annotation .ObjectMeta "a" "") | upper }}`, "a: b", ""},
		{"as YAML", "x:\n  {{ toYaml .ObjectMeta.Annotations | indent 2 }}", "a: b\nc", "x:\n  a: |-\n    a: b\n    c\n  "},
		{"as JSON", "x: {{ toJSON .ObjectMeta.Annotations }}", "a\"b\n", `x: {"a":"a\"b\n"}`},
		{"as JSON in quotes", `x: '{{ toJSON .ObjectMeta.Annotations }}'`, "it's", `x: '{"a":"it''s"}'`},
		{"as JSON, and then more", `x: {{ printf "%s%s" (toJSON .ObjectMeta.Labels) (index .ObjectMeta.Annotations "a") }}`, "\ny: b", ""},
		{"a value of the operator's", "x:\n  {{ .Values.text | indent 2 }}", "", "x:\n  a: b\n  c: d"},
		{"numbers", "x: {{ .ProxyConfig.StatusPort }}", "", "x: 15020"},
		{"names of enums", "x: {{ .ProxyConfig.InterceptionMode }}", "", "x: REDIRECT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := run(t, c.template, c.value)
			switch {
			case c.want == "" && err == nil:
				t.Errorf("printed %q; want an error", got)
			case c.want != "" && err != nil:
				t.Error(err)
			case got != c.want && c.want != "":
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
}

// places has a value of the pod's in places of all kinds.
const places = `
double: "a {{ .ObjectMeta.Annotations.a }} b"
single: 'a {{ .ObjectMeta.Annotations.a }} b'
plain: {{ .ObjectMeta.Annotations.a }}
behind: --flag={{ .ObjectMeta.Annotations.a }}
quoted: {{ .ObjectMeta.Annotations.a | quote }}
flow: [x, "{{ .ObjectMeta.Annotations.a }}", {k: "{{ .ObjectMeta.Annotations.a }}"}, {{ .ObjectMeta.Annotations.a | quote }}]
block: |-
  one {{ .ObjectMeta.Annotations.a }}
  two
list:
- "{{ .ObjectMeta.Annotations.a }}"
- name: x
  args:
  - '{{ .ObjectMeta.Annotations.a }}'
# {{ .ObjectMeta.Annotations.a }}
end: here
`

// FuzzScalar returns a template any value: there is an error, or the value is in the scalars that it was put into, and nothing else
// has changed. To see every place on its own, the template is run line by line, too.
func FuzzScalar(f *testing.F) {
	for _, seed := range []string{
		"", "a", "a\nb: c", "\"", "'", "''", `\`, `\"`, "a: b", "a #b", "# a", "- a", "&a", "*a", "!a", "|", ">", "[", "{a: b}", "]", "}", "},{",
		"\r", "\t", "\x00", "\u0085", "\u2028", "\ufeff", "---", "...", "?", ":", "a:", " a", "a ", "%a", "@a", "`", "{{ .Values }}", "\x1b", "\xff", "~", "null", "'a' b", `"a" b`,
	} {
		f.Add(seed)
	}
	whole, err := Parse("places", places, nil)
	if err != nil {
		f.Fatal(err)
	}
	var parts []*Template
	for line := range strings.Lines(places) {
		if strings.Contains(line, "{{") && strings.Contains(line, ": ") && line[0] != ' ' && line[0] != '-' &&
			line[0] != '#' {
			p, err := Parse("line", line+"end: here\n", nil)
			if err != nil {
				f.Fatal(err)
			}
			parts = append(parts, p)
		}
	}
	f.Fuzz(func(t *testing.T, value string) {
		if strings.ToValidUTF8(value, "") != value {
			return // JSON has none
		}
		for _, x := range append(parts, whole) {
			out, err := x.Execute(dataWith(value))
			if err != nil {
				continue
			}
			usual, err := x.Execute(dataWith("marker"))
			if err != nil {
				t.Fatal(err)
			}
			var got, want yaml.Node
			if err := yaml.Unmarshal(out, &got); err != nil {
				// A later refusal is harmless, but only plain scalars may have one.
				t.Fatalf("%q is not rendered as valid YAML: %v\n%s", value, err, out)
			}
			if err := yaml.Unmarshal(usual, &want); err != nil {
				t.Fatal(err)
			}
			same(t, &got, &want, value, string(out))
		}
	})
}

func same(t *testing.T, got, want *yaml.Node, value, text string) {
	t.Helper()
	if got.Kind != want.Kind || len(got.Content) != len(want.Content) {
		t.Fatalf("the value %q changes the structure:\n%s", value, text)
	}
	if want.Kind == yaml.ScalarNode {
		expected := strings.ReplaceAll(want.Value, "marker", value)
		if got.Value != expected && strings.TrimSpace(got.Value) != strings.TrimSpace(expected) {
			t.Fatalf("with the value %q a scalar is %q, want %q:\n%s", value, got.Value, expected, text)
		}
	}
	for i := range want.Content {
		same(t, got.Content[i], want.Content[i], value, text)
	}
}

// TestFunctions calls what Istio's templates call.
func TestFunctions(t *testing.T) {
	for _, c := range []struct{ name, template, want string }{
		{"excludeInboundPort adds", `{{ excludeInboundPort 15020 "1, 2" }}`, "1,2,15020"},
		{"excludeInboundPort finds", `{{ excludeInboundPort "2" "1,2" }}`, "1,2"},
		{"excludeInboundPort of none", `{{ excludeInboundPort 0 "1" }}`, "1"},
		{"contains", `{{ contains "/" "a/b" }}{{ contains "/" "ab" }}`, "truefalse"},
		{"valueOrDefault", `{{ valueOrDefault "" "x" }}{{ valueOrDefault .Values.nope "y" }}{{ valueOrDefault "z" "x" }}`, "xyz"},
		{"directory", `{{ directory "/etc/certs/root.pem" }}`, "/etc/certs/"},
		{"appendMultusNetwork", `{{ appendMultusNetwork "" "default/istio-cni" }}|{{ appendMultusNetwork "a" "default/istio-cni" }}|` +
			"{{ appendMultusNetwork `[{\"name\":\"a\"}]` \"default/istio-cni\" }}|{{ appendMultusNetwork \"default/istio-cni\" \"default/istio-cni\" }}",
			`default/istio-cni|a, default/istio-cni|[{"name":"a"}, {"name": "istio-cni", "namespace": "default"}]|default/istio-cni`},
		{"omitNil", `{{ omitNil (dict "a" nil "b" (dict "c" nil) "d" 1) | toJson }}`, `{"d":1}`},
		{"maps", `{{ toJSON (mergeMaps (strdict "a" "1" "b" "2") (strdict "b" "3")) }}{{ toJSON (omit (strdict "a" "1" "b" "2") "a") }}{{ toJsonMap (strdict "x" "y") }}`,
			`{"a":"1","b":"3"}{"b":"2"}{"x":"y"}`},
		{"formatDuration", `{{ formatDuration .ProxyConfig.DrainDuration }}`, "45s"},
		{"protoToJSON leaves out defaults", `{{ protoToJSON .ProxyConfig }}`, "{}"},
		{"indent leaves the first line", `{{ indent 2 "a\nb" }}`, "a\n  b"},
		{"env is not the process's", `{{ env "HOME" "none" }}`, "none"},
		{"structToJSON", `{{ range .Spec.Containers }}{{ structToJSON . }}{{ end }}`, `{"name":"c1","resources":{}}{"name":"c2","resources":{}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := run(t, `{{ $x := 1 }}`+c.template, "")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestImpureFunctionsAreNotThere: a template sees the pod, and not the control plane's machine.
func TestImpureFunctionsAreNotThere(t *testing.T) {
	for _, f := range []string{`expandenv "$HOME"`, `getHostByName "localhost"`} {
		if _, err := Parse("x", "{{ "+f+" }}", nil); err == nil {
			t.Errorf("%s is rendered, want it to be absent", f)
		}
	}
}

// TestOutputIsBounded runs a template that prints and prints.
func TestOutputIsBounded(t *testing.T) {
	x, err := Parse("x", `{{ range until 100000 }}{{ repeat 1000 "x" }}{{ end }}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Execute(Data{MeshConfig: &meshconfig.MeshConfig{}}); err == nil {
		t.Error("100 MB were printed")
	}
}

func TestResourceAttributes(t *testing.T) {
	provider := &meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider{
		ServiceAttributeEnrichment: meshconfig.MeshConfig_ExtensionProvider_OTEL_SEMANTIC_CONVENTIONS,
	}
	m := &meshconfig.MeshConfig{ExtensionProviders: []*meshconfig.MeshConfig_ExtensionProvider{{
		Provider: &meshconfig.MeshConfig_ExtensionProvider_Opentelemetry{Opentelemetry: provider},
	}}}
	one := []corev1.Container{{Name: "c", Image: "registry:5000/web:1.21@sha256:abc"}}
	for _, c := range []struct {
		name                string
		annotations, labels map[string]string
		containers          []corev1.Container
		want                string
	}{
		{"by itself", nil, nil, one, "service.namespace=ns,service.version=1.21@sha256:abc,service.instance.id=ns.$(POD_NAME).c"},
		{"by label", nil, map[string]string{"app.kubernetes.io/version": "v2"}, one, "service.namespace=ns,service.version=v2,service.instance.id=ns.$(POD_NAME).c"},
		{"by annotation", map[string]string{"resource.opentelemetry.io/service.namespace": "x", "resource.opentelemetry.io/service.instance.id": "i"}, nil,
			append(one, one...), "service.namespace=x,service.instance.id=i"},
	} {
		if got := otelResourceAttributes(m, c.annotations, c.labels, "ns", c.containers); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := otelResourceAttributes(&meshconfig.MeshConfig{}, nil, nil, "ns", one); got != "" {
		t.Errorf("no value is requested, got %q", got)
	}
	provider.ServiceAttributeEnrichment = meshconfig.MeshConfig_ExtensionProvider_ISTIO_CANONICAL
	if got := otelResourceAttributes(m, nil, nil, "ns", one); got != "" {
		t.Errorf("a provider with Istio's own attributes: got %q", got)
	}
}
