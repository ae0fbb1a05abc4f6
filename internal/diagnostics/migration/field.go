package migration

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// field is a field of a subject.
type field struct {
	// path is the concrete path, without wildcards.
	path  string
	value any
	// parent is the nearest map that contains the field, and key its last key or index.
	parent any
	key    string
}

// splitPath returns the steps of a path. A step in brackets keeps the opening bracket:
// "spec.http[*].name" is spec, http, [*, name. Dots in brackets do not separate steps.
func splitPath(path string) []string {
	var steps []string
	for path != "" {
		if path[0] == '[' {
			inner, rest, _ := strings.Cut(path[1:], "]")
			steps, path = append(steps, "["+inner), strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		steps, path = append(steps, path[:end]), strings.TrimPrefix(path[end:], ".")
	}
	return steps
}

// selectFields returns the fields of root at a path, in the order of lists and sorted keys. For an
// empty path it returns root itself, and for a path without a field nothing.
func selectFields(root any, path string) []field {
	list := []field{{value: root}}
	for _, step := range splitPath(path) {
		var next []field
		for _, f := range list {
			next = append(next, f.children(step)...)
		}
		list = next
	}
	return list
}

// children returns the fields of f that one step of a path selects, or nil if f has none of them.
// In a map, name or [name selects one key and [* all keys, sorted; in a list, [* selects all
// elements and a name none. The closing bracket is not part of step.
func (f field) children(step string) []field {
	key, bracketed := strings.CutPrefix(step, "[")
	switch value := f.value.(type) {
	case map[string]any:
		if bracketed && key == "*" {
			var all []field
			for _, k := range slices.Sorted(maps.Keys(value)) {
				all = append(all, field{f.path + "[" + k + "]", value[k], value, k})
			}
			return all
		}
		child, ok := value[key]
		switch {
		case !ok:
			return nil
		case bracketed:
			return []field{{f.path + "[" + key + "]", child, value, key}}
		default:
			return []field{{strings.TrimPrefix(f.path+"."+key, "."), child, value, key}}
		}
	case []any:
		var all []field
		for i, child := range value {
			if bracketed && key == "*" {
				at := strconv.Itoa(i)
				all = append(all, field{f.path + "[" + at + "]", child, f.parent, at})
			}
		}
		return all
	default:
		return nil
	}
}
