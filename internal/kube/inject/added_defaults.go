package inject

import (
	"fmt"
	"reflect"
	"strconv"
)

// addedDefaults are fields that encoding a decoded object adds although the user did not write
// them, such as "resources": {} or "divisor": "0". They are added before a patch against the
// decoded object is applied, and removed afterwards if unchanged. Keys are paths by names, because
// list indexes may change.
type addedDefaults map[string]any

// addMissing adds to written, an object as the user wrote it, the fields that only its encoded form
// has, and records each by its path. Lists are compared by position.
func (d addedDefaults) addMissing(written, encoded any, place string) {
	switch w := written.(type) {
	case map[string]any:
		e, _ := encoded.(map[string]any)
		for k, v := range e {
			if _, there := w[k]; !there {
				w[k] = v
				d[place+"/"+k] = v
			} else {
				d.addMissing(w[k], v, place+"/"+k)
			}
		}
	case []any:
		e, _ := encoded.([]any)
		for i := range min(len(w), len(e)) {
			d.addMissing(w[i], e[i], place+"/"+elementKey(w[i], i))
		}
	}
}

// removeUnchanged removes from object, which is at place, the fields that addMissing recorded and
// whose value is still the recorded one.
func (d addedDefaults) removeUnchanged(object any, place string) {
	switch o := object.(type) {
	case map[string]any:
		for k, v := range o {
			here := place + "/" + k
			if was, put := d[here]; put && reflect.DeepEqual(was, v) {
				delete(o, k)
				continue
			}
			d.removeUnchanged(v, here)
		}
	case []any:
		for i, v := range o {
			d.removeUnchanged(v, place+"/"+elementKey(v, i))
		}
	}
}

// elementKey returns the path element for a list element: its name, or its index if it has none.
func elementKey(element any, index int) string {
	if m, ok := element.(map[string]any); ok && m["name"] != nil {
		return fmt.Sprintf("[%v]", m["name"])
	}
	return strconv.Itoa(index)
}
