package migration

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
)

// newEnvironment declares the variables of expressions: value is the selected field, parent the map
// that contains it, and key its key in that map; object is the whole object, ns its namespace and
// name its name; labels is the JSON of the object's labels, and text that of value; mesh is the
// MeshConfig, and retiredAgentFlags are flags of pilot-agent, with two hyphens.
var newEnvironment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{cel.CrossTypeNumericComparisons(true), ext.Strings(), ext.Encoders(), ext.Lists()}
	for _, name := range []string{"value", "parent", "object", "mesh", "retiredAgentFlags"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	for _, name := range []string{"key", "ns", "name", "labels", "text"} {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	return cel.NewEnv(options...)
})

// compileExpression compiles a CEL expression. It returns nil for an empty one, and an error for an
// invalid one.
func compileExpression(expression string) (cel.Program, error) {
	if expression == "" {
		return nil, nil
	}
	e, err := newEnvironment()
	if err != nil {
		return nil, err
	}
	checked, issues := e.Compile(expression)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	return e.Program(checked)
}

// evaluate returns the result of an expression for a field of a subject, or nil if it cannot be
// evaluated.
func (r *run) evaluate(p cel.Program, s *subject, f field) ref.Val {
	result, _, err := p.Eval(map[string]any{
		"value": f.value, "parent": f.parent, "key": f.key, "object": s.root, "mesh": r.mesh,
		"ns": s.document.Key.Namespace, "name": s.document.Key.Name,
		"text":   func() any { return encode(f.value) },
		"labels": func() any { return encode(s.labels()) },

		"retiredAgentFlags": func() any { return retiredAgentFlags() },
	})
	if err != nil {
		return nil // a field of the expression does not exist
	}
	return result
}

// encode returns the JSON of v, with sorted keys, or "" if it cannot be encoded.
func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// holds reports whether a condition is met for a field of a subject. A condition that is not set is
// met; a condition that cannot be evaluated is not.
func (r *run) holds(p cel.Program, s *subject, f field) bool {
	if p == nil {
		return true
	}
	result := r.evaluate(p, s, f)
	return result != nil && result.Value() == true
}

// keysOf returns the strings in the result of an expression for a whole subject, with the strings
// of nested lists. It returns nil if the expression cannot be evaluated.
func (r *run) keysOf(p cel.Program, s *subject) []string {
	result := r.evaluate(p, s, field{value: s.root})
	if result == nil {
		return nil
	}
	native, err := result.ConvertToNative(listType)
	if err != nil {
		return nil
	}
	return flatten(native)
}

// flatten returns the strings in v, which may be nested in lists. It skips all other values.
func flatten(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case ref.Val:
		return flatten(v.Value())
	case []ref.Val:
		return flattenAll(v)
	case []any:
		return flattenAll(v)
	default:
		return nil
	}
}

// flattenAll returns the strings in all elements of a list.
func flattenAll[T any](list []T) []string {
	var out []string
	for _, x := range list {
		out = append(out, flatten(x)...)
	}
	return out
}
