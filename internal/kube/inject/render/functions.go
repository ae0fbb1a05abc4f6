package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/Masterminds/sprig/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// templateFuncs returns the functions of Istio's templates and the general ones of sprig. It leaves
// out expandenv, which reads the control plane's variables, and getHostByName, which queries its
// name servers. The function env calls the given one, and returns its default if that is nil or
// returns "".
func templateFuncs(env func(key string) string) template.FuncMap {
	f := sprig.TxtFuncMap()
	delete(f, "expandenv")
	delete(f, "getHostByName")
	maps.Copy(f, template.FuncMap{
		"annotation":     annotationOr,
		"isset":          func(m map[string]string, key string) bool { _, ok := m[key]; return ok },
		"valueOrDefault": valueOrDefault,
		"contains":       func(part, whole string) bool { return strings.Contains(whole, part) },
		"toLower":        strings.ToLower,
		"directory":      func(file string) string { dir, _ := path.Split(file); return dir },
		"formatDuration": func(d *durationpb.Duration) string { return d.AsDuration().String() },
		"env": func(key, otherwise string) string {
			if env != nil {
				if v := env(key); v != "" {
					return v
				}
			}
			return otherwise
		},

		"toYaml":       toYAML,
		"toJSON":       func(m map[string]string) string { return toJSON(orEmpty(m)) },
		"toJsonMap":    func(list ...map[string]string) string { return toJSON(mergeMaps(list...)) },
		"structToJSON": structToJSON,
		"protoToJSON":  protoToJSON,
		"fromJSON":     fromJSON,
		"indent":       indentLines,

		"mergeMaps": mergeMaps,
		"omit":      omitKeys,
		"strdict":   stringDict,
		"omitNil":   func(v any) any { return withoutNil(v) },

		"excludeInboundPort":  excludeInboundPort,
		"includeInboundPorts": allPorts,
		"applicationPorts":    applicationPorts,
		"kubevirtInterfaces":  func(s string) string { return s },
		"excludeInterfaces":   func(s string) string { return s },
		"appendMultusNetwork": appendMultusNetwork,

		"otelResourceAttributes": otelResourceAttributes,
	})
	return f
}

// annotationOr returns an annotation of the pod, or the text of otherwise if it is missing. The
// text is what fmt prints.
func annotationOr(meta metav1.ObjectMeta, name string, otherwise any) string {
	if v, ok := meta.Annotations[name]; ok {
		return v
	}
	return fmt.Sprint(otherwise)
}

// valueOrDefault returns v, or otherwise if v is nil or "".
func valueOrDefault(v, otherwise any) any {
	if v == nil || v == "" {
		return otherwise
	}
	return v
}

// orEmpty returns m, or an empty map if it is nil.
func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// toJSON returns v as JSON, or "{}" if it cannot be encoded.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(b)
}

// structToJSON returns v as JSON, and "{}" for an untyped nil.
func structToJSON(v any) string {
	if v == nil {
		return "{}"
	}
	return toJSON(v)
}

// toYAML returns v as YAML, with the names of its JSON fields.
func toYAML(v any) (string, error) {
	b, err := yaml.Marshal(v)
	return string(b), err
}

// fromJSON returns the value of a JSON text. It returns an error for invalid JSON, so that a typo
// in a volume is not silently dropped.
func fromJSON(text string) (any, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	return v, nil
}

// indentLines indents all lines except the first, which the template has indented. A negative
// number is 0.
func indentLines(spaces int, text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", max(0, spaces)))
}

// mergeMaps returns a new map with the entries of all maps; later ones override earlier ones. It
// returns nil without maps.
func mergeMaps(list ...map[string]string) map[string]string {
	if len(list) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, m := range list {
		maps.Copy(all, m)
	}
	return all
}

// omitKeys returns a copy of m without the keys, never nil.
func omitKeys(m map[string]string, keys ...string) map[string]string {
	rest := maps.Clone(orEmpty(m))
	for _, k := range keys {
		delete(rest, k)
	}
	return rest
}

// stringDict returns a map of the keys and values, which alternate. A last key without a value has
// the value "".
func stringDict(keysAndValues ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		m[keysAndValues[i]] = ""
		if i+1 < len(keysAndValues) {
			m[keysAndValues[i]] = keysAndValues[i+1]
		}
	}
	return m
}

// withoutNil returns a tree of JSON values without null values, and without collections that
// thereby become empty; it returns nil if nothing is left. A collection that was empty stays. v is
// not modified.
func withoutNil(v any) any {
	switch v := v.(type) {
	case map[string]any:
		rest := map[string]any{}
		for k, x := range v {
			if x = withoutNil(x); x != nil {
				rest[k] = x
			}
		}
		if len(rest) == 0 && len(v) > 0 {
			return nil
		}
		return rest
	case []any:
		rest := []any{}
		for _, x := range v {
			if x = withoutNil(x); x != nil {
				rest = append(rest, x)
			}
		}
		if len(rest) == 0 && len(v) > 0 {
			return nil
		}
		return rest
	}
	return v
}
