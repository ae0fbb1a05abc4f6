package render

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// functions are those that Istio's templates use, over the general ones of sprig. Of these, what would read the control plane's
// own surroundings is left out: expandenv and getHostByName; env asks the function given.
func functions(env func(key string) string) template.FuncMap {
	f := sprig.TxtFuncMap()
	delete(f, "expandenv")
	delete(f, "getHostByName")
	maps.Copy(f, template.FuncMap{
		"annotation":     annotation,
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
		"toJsonMap":    func(list ...map[string]string) string { return toJSON(merged(list...)) },
		"structToJSON": structToJSON,
		"protoToJSON":  protoToJSON,
		"fromJSON":     fromJSON,
		"indent":       indent,

		"mergeMaps": merged,
		"omit":      omit,
		"strdict":   strdict,
		"omitNil":   func(v any) any { return withoutNil(v) },

		"excludeInboundPort":  excludeInboundPort,
		"includeInboundPorts": portsOfAll,
		"applicationPorts":    portsOfApplication,
		"kubevirtInterfaces":  func(s string) string { return s },
		"excludeInterfaces":   func(s string) string { return s },
		"appendMultusNetwork": appendMultusNetwork,

		"otelResourceAttributes": otelResourceAttributes,
	})
	return f
}

// annotation gives an annotation of a pod, or the value to use without it.
func annotation(meta metav1.ObjectMeta, name string, otherwise any) string {
	if v, ok := meta.Annotations[name]; ok {
		return v
	}
	return fmt.Sprint(otherwise)
}

func valueOrDefault(v, otherwise any) any {
	if v == nil || v == "" {
		return otherwise
	}
	return v
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(b)
}

func structToJSON(v any) string {
	if v == nil {
		return "{}"
	}
	return toJSON(v)
}

func toYAML(v any) (string, error) {
	b, err := yaml.Marshal(v)
	return string(b), err
}

// fromJSON reads JSON. What is none is an error, and not an empty value, so that a volume with a typo is no silent loss.
func fromJSON(text string) (any, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	return v, nil
}

// indent puts spaces before all lines but the first, which the template has put in its place.
func indent(spaces int, text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", max(0, spaces)))
}

// merged joins maps; later ones win.
func merged(list ...map[string]string) map[string]string {
	if len(list) == 0 {
		return nil
	}
	all := map[string]string{}
	for _, m := range list {
		maps.Copy(all, m)
	}
	return all
}

func omit(m map[string]string, keys ...string) map[string]string {
	rest := maps.Clone(orEmpty(m))
	for _, k := range keys {
		delete(rest, k)
	}
	return rest
}

// strdict is sprig's dict for strings, which labels and annotations are.
func strdict(keysAndValues ...string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		m[keysAndValues[i]] = ""
		if i+1 < len(keysAndValues) {
			m[keysAndValues[i]] = keysAndValues[i+1]
		}
	}
	return m
}

// withoutNil leaves out what is null in a tree of JSON values, and collections that this empties.
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
