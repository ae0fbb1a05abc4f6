package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// maxEdits bounds the edits that Compare returns.
const maxEdits = 100

// Edit is a field in which two versions differ. The values are JSON; one is empty if the field was
// added or removed.
type Edit struct{ Field, Before, After string }

// Compare returns the fields in which two JSON documents differ, in alphabetical order, at most
// maxEdits. An empty document has no fields; a malformed one is an error. Elements that are equal
// at the beginning and the end of two lists belong together; the others are compared in their
// order.
func Compare(before, after []byte) ([]Edit, error) {
	var a, b any
	for text, into := range map[*[]byte]*any{&before: &a, &after: &b} {
		if len(*text) == 0 {
			continue
		}
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, fmt.Errorf("read a version of an object: %w", err)
		}
	}
	var c comparison
	c.compare("", a, b)
	return c.edits[:min(len(c.edits), maxEdits)], nil
}

// comparison collects edits.
type comparison struct{ edits []Edit }

// compare adds the edits between two values of a field. nil means that there is none. Objects are
// compared by field, lists by element, all others as a whole.
func (c *comparison) compare(field string, a, b any) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			c.compareFields(field, x, y)
			return
		}
	case []any:
		if y, ok := b.([]any); ok {
			c.compareElements(field, x, y)
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		c.edits = append(c.edits, Edit{Field: field, Before: text(a), After: text(b)})
	}
}

// compareFields adds the edits between the fields of two objects, sorted by name. field is the path
// of the objects, "" at the top. A field that only one object has is compared with nil.
func (c *comparison) compareFields(field string, a, b map[string]any) {
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	prefix := field
	if prefix != "" {
		prefix += "."
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		c.compare(prefix+k, a[k], b[k])
	}
}

// compareElements adds the edits between the elements of two lists, with the indexes that removed
// elements had before and others have afterwards. Equal elements at the beginning and end are
// skipped, the others are compared by index.
func (c *comparison) compareElements(field string, a, b []any) {
	start := 0
	for start < min(len(a), len(b)) && reflect.DeepEqual(a[start], b[start]) {
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && reflect.DeepEqual(a[endA-1], b[endB-1]) {
		endA, endB = endA-1, endB-1
	}
	for i := start; i < max(endA, endB); i++ {
		var x, y any
		if i < endA {
			x = a[i]
		}
		if i < endB {
			y = b[i]
		}
		c.compare(field+"["+strconv.Itoa(i)+"]", x, y)
	}
}

// text returns a value as JSON, "" for nil.
func text(v any) string {
	if v == nil {
		return ""
	}
	b, _ := json.Marshal(v) //nolint:errchkjson // it was read from JSON
	return string(b)
}
