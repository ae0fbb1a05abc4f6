package helmvalues

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestSchemas: the values.schema.json of each chart is derived from its table.
func TestSchemas(t *testing.T) {
	for _, chart := range Charts() {
		text, err := json.MarshalIndent(schemaOf(t, chart), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		expectFile(t, "../charts/"+chart+"/values.schema.json", string(text)+"\n")
	}
}

func schemaOf(t *testing.T, chart string) map[string]any {
	t.Helper()
	tree := buildTree(tableOf(t, chart))
	values := levelSchema(tree)
	delete(values, "additionalProperties")
	properties, _ := values["properties"].(map[string]any)
	// Charts above this one share global, so its unknown names are examined by the templates, and
	// only where this chart is not a part of another one.
	if global, ok := properties["global"].(map[string]any); ok {
		delete(global, "additionalProperties")
	}
	names := slices.Sorted(maps.Keys(properties))
	root := map[string]any{}
	for _, name := range []string{internalDefaults, legacyPrefix(chart)} {
		if name != "" {
			root[name] = map[string]any{"$ref": "#/$defs/values", "unevaluatedProperties": unknownName(names)}
		}
	}
	return map[string]any{
		"$schema":       "https://json-schema.org/draft/2020-12/schema",
		"title":         "Values of the chart " + chart,
		"$defs":         map[string]any{"values": values},
		"$ref":          "#/$defs/values",
		"properties":    root,
		"propertyNames": nameSchema(slices.Concat(slices.Collect(maps.Keys(root)), names)),
	}
}

func levelSchema(n *node) map[string]any {
	properties := map[string]any{}
	for name, child := range n.children {
		if child.value == nil {
			properties[name] = levelSchema(child)
		} else {
			properties[name] = valueSchema(child.value)
		}
	}
	return map[string]any{
		"type": []string{"object", "null"}, "properties": properties,
		"additionalProperties": unknownName(slices.Sorted(maps.Keys(properties))),
	}
}

// unknownName accepts no value. Its text makes the validator of Helm (jsonschema v6.0) report the
// known names with the right path: for propertyNames it reports a wrong one, except at the root.
func unknownName(known []string) map[string]any {
	return map[string]any{"const": "one of the known names here: " + strings.Join(known, ", ")}
}

// nameSchema accepts known names. A validator reports, for any other name, those that begin alike.
func nameSchema(known []string) map[string]any {
	slices.Sort(known)
	if len(known) <= 12 {
		return map[string]any{"enum": known}
	}
	initials := map[string]bool{}
	for _, k := range known {
		initials[strings.ToLower(k[:1])] = true
	}
	var rules []any
	class := ""
	for _, i := range slices.Sorted(maps.Keys(initials)) {
		both := i + strings.ToUpper(i)
		if i == "_" {
			both = i
		}
		class += both
		rules = append(rules, map[string]any{
			"if": map[string]any{"pattern": "^[" + both + "]"}, "then": map[string]any{"enum": namesWith(i, known)},
		})
	}
	rules = append(rules, map[string]any{
		"if": map[string]any{"pattern": "^[^" + class + "]"}, "then": map[string]any{"enum": known},
	})
	return map[string]any{"allOf": rules}
}

func namesWith(initial string, known []string) []string {
	return slices.DeleteFunc(slices.Clone(known), func(k string) bool { return !strings.EqualFold(k[:1], initial) })
}

func valueSchema(v *Value) map[string]any {
	s := map[string]any{}
	switch v.Type {
	case "any":
	case "":
		s["type"] = []string{"string", "null"}
	case "scalar", "intOrString":
		s["type"] = []string{"string", "number", "null"}
	default:
		s["type"] = []string{v.Type, "null"}
	}
	if v.Rejected != "" {
		s = map[string]any{"deprecated": true, "description": "Rejected: " + v.Rejected}
	} else if v.Note != "" {
		s["description"] = v.Note
	}
	if len(v.Enum) > 0 {
		enum := slices.Concat([]any{nil}, v.Enum)
		for _, k := range slices.Sorted(maps.Keys(v.RejectedValues)) {
			enum = append(enum, k)
		}
		s["enum"] = enum
	}
	return s
}

// TestTemplates: the part of the templates that rejects values is derived from the table.
func TestTemplates(t *testing.T) {
	for _, chart := range Charts() {
		expectFile(t, "../charts/"+chart+"/templates/_values.tpl", valuesTemplate(t, chart))
	}
}

const checks = `{{- /* Written by go test ./manifests/helmvalues -update. Do not edit. */}}

{{- /* Merges the values: defaults, then those of the profile and the platform, then those of the installation. Every template
includes it before it reads a value. It fails for a value that is rejected. */}}
{{- define "CHART.values" -}}
{{- $defaults := index .Values "_internal_defaults_do_not_set" }}
{{- if $defaults }}
{{- $set := SET }}
{{- include "CHART.values.check" (list . $set) }}
{{- $merged := deepCopy $defaults }}
{{- range $name := list (coalesce $set.profile (($set).global).profile "default") (coalesce $set.platform (($set).global).platform "none" | printf "platform-%s") }}
{{- include "CHART.values.merge" (list $merged ($.Files.Get (printf "profiles/%s.yaml" $name) | fromYaml)) }}
{{- end }}
{{- include "CHART.values.merge" (list $merged $set) }}
{{- $_ := set . "Values" $merged }}
{{- end }}
{{- end }}

{{- /* Sets in the first map what the second one has; null removes. */}}
{{- define "CHART.values.merge" -}}
{{- $into := index . 0 }}
{{- range $key, $value := index . 1 }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $into $key }}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $into $key)) }}
{{- include "CHART.values.merge" (list (get $into $key) $value) }}
{{- else }}
{{- $_ := set $into $key $value }}
{{- end }}
{{- end }}
{{- end }}

{{- define "CHART.values.check" -}}
{{- $root := index . 0 }}
{{- $set := index . 1 }}
{{- $global := $set.global | default dict }}
{{- $known := include "CHART.values.global" . | fromYamlArray }}
{{- range $name := keys $global | sortAlpha }}
{{- if and $root.Chart.IsRoot (not (has $name $known)) }}
{{- $alike := list }}
{{- range $known }}{{ if eq (lower (trunc 1 .)) (lower (trunc 1 $name)) }}{{ $alike = append $alike . }}{{ end }}{{ end }}
{{- fail (printf "global.%s is not a value of the chart: known are global.%s" $name (join ", global." ($alike | default $known))) }}
{{- end }}
{{- end }}
{{- range $row := include "CHART.values.rejected" . | fromYamlArray }}
{{- $at := $set }}
{{- range $key := splitList "." $row.name }}
{{- if kindIs "map" $at }}{{ $at = get $at $key }}{{ else }}{{ $at = "" }}{{ end }}
{{- end }}
{{- $isSet := not (or (kindIs "invalid" $at) (eq (toJson $at) "\"\"")) }}
{{- if and $isSet $row.reason (not (has (toJson $at) $row.accepts)) }}
{{- fail (printf "%s=%s is rejected: %s" $row.name (toJson $at) $row.reason) }}
{{- end }}
{{- with $row.values }}{{ if and $isSet (hasKey . (toString $at)) }}
{{- fail (printf "%s=%s is rejected: %s" $row.name (toJson $at) (get . (toString $at))) }}
{{- end }}{{ end }}
{{- end }}
{{- end }}
`

func valuesTemplate(t *testing.T, chart string) string {
	t.Helper()
	type row struct {
		Name    string            `json:"name"`
		Reason  string            `json:"reason,omitempty"`
		Accepts []string          `json:"accepts,omitempty"`
		Values  map[string]string `json:"values,omitempty"`
	}
	var rows []row
	for _, v := range tableOf(t, chart) {
		r := row{Name: v.Name, Reason: v.Rejected, Values: v.RejectedValues}
		for _, a := range v.Accepts {
			text, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			r.Accepts = append(r.Accepts, string(text))
		}
		if r.Reason != "" || len(r.Values) > 0 {
			rows = append(rows, r)
		}
	}
	globals := map[string]bool{}
	for _, c := range Charts() {
		for name := range buildTree(tableOf(t, c)).children["global"].children {
			globals[name] = true
		}
	}
	rejected, err := yaml.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	known, err := yaml.Marshal(slices.Sorted(maps.Keys(globals)))
	if err != nil {
		t.Fatal(err)
	}
	set := `omit .Values "` + internalDefaults + `"`
	if prefix := legacyPrefix(chart); prefix != "" {
		set += fmt.Sprintf(" %q | deepCopy }}\n{{- include \"%s.values.merge\" (list $set (get .Values %q | default dict))", prefix, chart, prefix)
	}
	text := strings.NewReplacer("CHART", chart, "SET", set).Replace(checks)
	text += fmt.Sprintf("\n{{- /* The names that global has in any of the charts. */}}\n{{- define \"%s.values.global\" -}}\n%s{{- end }}\n", chart, known)
	return text + fmt.Sprintf("\n{{- define \"%s.values.rejected\" -}}\n%s{{- end }}\n", chart, rejected)
}
